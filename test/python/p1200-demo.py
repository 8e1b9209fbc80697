# SPDX-License-Identifier: Apache-2.0
"""`lockstep demo --torch`: a real training, faults made in it, the right words about them."""
import json
import os
import re
import subprocess

from tap import LOCKSTEP, PYTHON, equal, main, need_torch, on_real_time, test, timed


def demo(place, *words, **env):
    whole = dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state"), LOCKSTEP_PYTHON=PYTHON,
                 TMPDIR=place)
    whole.update(env)
    try:
        return subprocess.run([LOCKSTEP, "demo", "--torch", *words], env=whole, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=110)
    except subprocess.TimeoutExpired as late:
        return timed(False, late)


@test
@on_real_time
def the_slow_rank_is_named_and_the_killed_one(place):
    done = demo(place, "--json", "--ranks=3", "--steps=38", "--checkpoint-every=10",
                "--fault=gpu-slow:rank=1,factor=2.5,step=12,steps=12", "--fault=kill:rank=2,step=32")
    equal(done.returncode, 0, done.stderr)
    answer = json.loads(done.stdout)
    equal([(deed["fault"], deed["rank"], deed["step"], deed["steps"]) for deed in answer["injected"]],
          [("gpu-slow", 1, 12, 12), ("kill", 2, 32, 1)])
    # What a healthy step takes of the device, one and a half times more, for 12 steps.
    timed(1.5 < answer["injected"][0]["seconds"] < 1.75, answer["injected"])
    equal((answer["ledger"]["host_view"], answer["exit"]), (True, 0))
    found = [(v["kind"], v["layer"], v["ranks"]) for v in answer["verdicts"]]
    timed(any(kind == "crash" and ranks == [2] for kind, _, ranks in found), found)
    slow = [v for v in answer["verdicts"] if v["kind"] == "straggler"]
    cost = sum(v["cost"]["seconds_per_step"] for v in slow if (v["layer"], v["ranks"]) == ("unknown", [1]))
    timed(cost > 0, found)
    timed(all(v["ranks"] == [1] or v["layer"] == "cpu" or v["cost"]["seconds_per_step"] < cost / 4 for v in slow),
          [(v["layer"], v["ranks"], v["cost"]) for v in slow])

    with open(os.path.join(answer["directory"], "out", "rank-0.log")) as file:
        log = file.read()
    losses = dict((int(step), float(loss)) for step, loss in
                  re.findall(r"^step (\d+) loss ([0-9.]+)", log, re.M))
    assert losses[0] > 3 and losses[37] < 2.3, losses
    # After a restart the steps go on by the optimizer's own count; the one that a rank died in may count.
    assert "restored from checkpoint of step 30" in log, log
    assert answer["ledger"]["steps"] in (32 + 8, 33 + 8), answer["ledger"]


def said(answer):
    return [(v["kind"], v["layer"], v["ranks"]) for v in answer["verdicts"] if v["layer"] != "cpu"]


@test
@on_real_time
def a_turned_bit_and_an_exception_are_told_apart_from_echoes(place):
    done = demo(place, "--json", "--ranks=3", "--steps=40", "--step-ms=20", "--checkpoint-every=10",
                "--fault=bit-flip:rank=1,step=12", "--fault=exception:rank=2,step=35")
    equal(done.returncode, 0, done.stderr)
    answer = json.loads(done.stdout)
    equal([(deed["fault"], deed["rank"], deed["step"]) for deed in answer["injected"]],
          [("bit-flip", 1, 12), ("exception", 2, 35)])
    found = said(answer)
    assert [1] in [ranks for kind, _, ranks in found if kind == "corruption"], found
    timed(("crash", "user-code", [2]) in found, found)
    # On a busy machine the others notice and end before it does: then it is told to, maybe by a signal.
    causes = [v["cause"] for v in answer["verdicts"] if v["kind"] == "crash"]
    words = ": RuntimeError: the demo's fault: an exception that nobody catches"
    timed(len(causes) == 1 and words in causes[0], causes)


@test
@on_real_time
def ranks_that_disagree_about_a_collective_are_told(place):
    done = demo(place, "--json", "--ranks=3", "--steps=16", "--step-ms=20", "--checkpoint-every=5",
                "--fault=other-op:rank=1,step=8")
    equal(done.returncode, 0, done.stderr)
    answer = json.loads(done.stdout)
    equal([(deed["fault"], deed["rank"], deed["step"]) for deed in answer["injected"]],
          [("other-op", 1, 8)])
    timed(("desync", "user-code", [1]) in said(answer), said(answer))


@test
def without_torch_it_says_in_one_line_what_to_do(place):
    done = demo(place, LOCKSTEP_PYTHON="/bin/false")
    equal((done.returncode, done.stdout), (3, ""))
    equal(done.stderr.strip(), "lockstep demo: LOCKSTEP_PYTHON: /bin/false has no torch")


@test
def what_it_cannot_do_is_refused(place):
    for words in (("--layout", "tp=2"), ("--fault", "heavy-stage"), ("--fault", "gpu-hang"),
                  ("--fault", "slow-checkpoint:rank=1")):
        done = demo(place, *words)
        equal((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), words)
        assert "--torch" in done.stderr, done.stderr


need_torch()
main()
