# SPDX-License-Identifier: Apache-2.0
"""Jobs on NCCL that were recorded on a GPU, judged by this version; and rings of one of them, read by this version's agent."""
import gzip
import json
import os
import subprocess
import tarfile

from tap import LOCKSTEP, SOURCE, equal, main, test

RUN = "pipeline-device2"  # as its rings say
RECORDED = os.path.join(SOURCE, "test", "recorded", "gpu")


def cases():
    with open(os.path.join(RECORDED, "cases.tsv")) as file:
        for line in file:
            yield line.rstrip("\n").split("\t")


def why(place, *words):
    done = subprocess.run([LOCKSTEP, "why", "--json", *words], capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state")))
    return json.loads(done.stdout), done.returncode


def again(place, name):
    run = os.path.join(place, name)
    os.makedirs(run)
    with gzip.open(os.path.join(RECORDED, name + ".lsf.gz")) as packed, open(os.path.join(run, "log.lsf"), "wb") as log:
        log.write(packed.read())
    return why(place, "--again", run)


def grade(answer, kinds, ranks, layers):
    verdicts = answer["verdicts"]
    if kinds == "none":
        return "yes" if not verdicts else "no"
    if not verdicts or verdicts[0]["kind"] not in kinds.split(",") or \
            verdicts[0]["ranks"] != [int(rank) for rank in ranks.split(",")]:
        return "no"
    return "yes" if layers == "*" or verdicts[0]["layer"] in layers.split(",") else "layer"


@test
def recorded_jobs_are_judged_as_well_as_before(place):
    different = []
    for name, kinds, ranks, layers, reached in cases():
        answer, _ = again(place, name)
        found = grade(answer, kinds, ranks, layers)
        if found != reached.split(":")[0]:
            different.append((name, found, reached, [(one["kind"], one["ranks"], one["layer"]) for one in answer["verdicts"]]))
    equal(different, [])


@test
def their_steps_are_priced_and_told_by_devices(place):
    for name in "ddp-healthy", "tensor-healthy", "experts-healthy", "pipeline-healthy", "graph-healthy":
        ledger = again(place, name)[0]["ledger"]
        equal((ledger["host_view"], ledger["unfit_steps"]), (False, 0), name)
        assert ledger["steps"] >= 60, ledger


def score_card(place, name):
    again(place, name)
    done = subprocess.run([LOCKSTEP, "report", "--json", os.path.join(place, name)], capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state")))
    return json.loads(done.stdout)


@test
def its_mfu_needs_no_option(place):
    card = score_card(place, "ddp-healthy-ahead")
    equal(card["mfu_peak"], "989 TFLOP/s: NVIDIA H200, dense bf16")
    assert 0.001 < card["mfu"] < 0.003, card["mfu"]  # a small model, and a quarter of the device


@test
def what_devices_did_is_in_the_score_card(place):
    card = score_card(place, "ddp-device2")
    equal([one["rank"] for one in card["devices"]], [0, 1, 2, 3])
    computing = [one["computing"] for one in card["devices"]]
    assert max(computing[1:]) + 0.1 < computing[0] < 1, computing  # it has more work than the others, which wait for it
    assert all(0 <= one["idle"] < 0.2 for one in card["devices"]), card["devices"]
    assert card["mfu"] is None and card["device_computing"] < computing[0]


@test
def rings_of_a_pipeline_are_read(place):
    rings = os.path.join(place, "rings")
    with tarfile.open(os.path.join(RECORDED, RUN + ".rings.tar.xz")) as tar:
        tar.extractall(rings)
    copy = "cp %s/rank-$RANK.* $LOCKSTEP_DIR/.of-$RANK && mv $LOCKSTEP_DIR/.of-$RANK $LOCKSTEP_DIR/rank-$RANK.0.ring && " % rings
    copy += "sleep 4"  # ranks that end at once were never there for the agent
    done = subprocess.run([LOCKSTEP, "run", "-q", "-n", "4", "--max-restarts", "0", "--name", RUN, "--", "sh", "-c", copy],
                          env=dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state")), capture_output=True, text=True, timeout=100)
    equal(done.returncode, 0, done.stderr)
    answer, _ = why(place, RUN)
    equal((answer["ledger"]["host_view"], answer["ledger"]["unfit_steps"]), (False, 0))
    assert answer["verdicts"], answer["ledger"]
    first = answer["verdicts"][0]
    equal((first["kind"], first["ranks"], first["layer"]), ("straggler", [0], "gpu"))
    cost_ms = 1e3 * first["cost"]["seconds_per_step"]
    assert 13.3 < cost_ms < 17.9, cost_ms  # 15.6 by the program's own events: within 15 %


main()
