"""`lockstep demo --torch`: a real training, faults made in it, the right words about them."""
import json
import os
import re
import subprocess

from tap import LOCKSTEP, PYTHON, equal, main, need_torch, test


def demo(place, *words, **env):
    whole = dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state"), LOCKSTEP_PYTHON=PYTHON,
                 TMPDIR=place)
    whole.update(env)
    return subprocess.run([LOCKSTEP, "demo", "--torch", *words], env=whole, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=110)


@test
def the_slow_rank_is_named_and_the_killed_one(place):
    done = demo(place, "--json", "--ranks=3", "--steps=48", "--checkpoint-every=10",
                "--fault=gpu-slow:rank=1,factor=2.5,step=12,steps=18", "--fault=kill:rank=2,step=38")
    equal(done.returncode, 0, done.stderr)
    answer = json.loads(done.stdout)
    equal([(deed["fault"], deed["rank"], deed["step"], deed["steps"]) for deed in answer["injected"]],
          [("gpu-slow", 1, 12, 18), ("kill", 2, 38, 1)])
    # What a healthy step takes of the device, one and a half times more, for 18 steps.
    assert 2.3 < answer["injected"][0]["seconds"] < 2.6, answer["injected"]
    equal((answer["ledger"]["host_view"], answer["exit"]), (True, 0))
    said = [(v["kind"], v["layer"], v["ranks"]) for v in answer["verdicts"]]
    assert any(kind == "crash" and ranks == [2] for kind, _, ranks in said), said
    slow = [(layer, ranks) for kind, layer, ranks in said if kind == "straggler"]
    # A machine that is busy with other things holds up all ranks, and that is said then.
    assert ("unknown", [1]) in slow or any(layer == "cpu" for layer, _ in slow), said
    assert all(ranks == [1] or layer == "cpu" for layer, ranks in slow), said

    with open(os.path.join(answer["directory"], "out", "rank-0.log")) as file:
        log = file.read()
    losses = dict((int(step), float(loss)) for step, loss in
                  re.findall(r"^step (\d+) loss ([0-9.]+)", log, re.M))
    assert losses[0] > 3 and losses[47] < 2, losses
    # After a restart the steps go on by the optimizer's own count; the one that a rank died in may count.
    assert "restored from checkpoint of step 30" in log, log
    assert answer["ledger"]["steps"] in (38 + 18, 39 + 18), answer["ledger"]


@test
def without_torch_it_says_in_one_line_what_to_do(place):
    done = demo(place, LOCKSTEP_PYTHON="/bin/false")
    equal((done.returncode, done.stdout), (3, ""))
    equal(done.stderr.strip(), "lockstep demo: LOCKSTEP_PYTHON: /bin/false has no torch")


@test
def what_it_cannot_do_is_refused(place):
    for words in (("--layout", "tp=2"), ("--fault", "heavy-stage")):
        done = demo(place, *words)
        equal((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), words)
        assert "--torch" in done.stderr, done.stderr


need_torch()
main()
