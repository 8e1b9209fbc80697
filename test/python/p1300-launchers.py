# SPDX-License-Identifier: Apache-2.0
"""Ranks that another launcher started: nobody tells how they ended, and it is told who failed all the same.

Without torch: a parent in Python is the launcher, and its children say their steps by hand.
"""
import json
import os
import subprocess
import sys

from tap import LOCKSTEP, PACKAGE, PYTHON, equal, main, test

RANK = """
import os, signal, sys, time
import lockstep

def train(rank, world, mode, place):
    for number in range(12):
        with lockstep.step():
            lockstep.metric(loss=1.0)
            time.sleep(0.02)  # the work of a step
        if rank == 1 and number == 8:
            if mode == "raise":
                raise ValueError("bad batch")
            if mode == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if mode == "exit":
                sys.exit(3)
    if mode != "well" and rank != 1:
        open(os.path.join(place, "waits"), "w").close()
        time.sleep(60)  # for the one that is gone; its launcher ends it
"""

# Two children, as torchrun has them: when one fails, the other is told to end, and so does the launcher.
PROCESSES = RANK + """
import subprocess
if "RANK" in os.environ:
    train(int(os.environ["RANK"]), 2, *sys.argv[1:])
    sys.exit(0)
ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2"))
         for rank in range(2)]
failed = ranks[1].wait()
while failed and not os.path.exists(os.path.join(sys.argv[2], "waits")):
    time.sleep(0.02)
time.sleep(0.3 if failed else 0)  # a launcher looks at its ranks now and then only
if failed:
    ranks[0].terminate()
ranks[0].wait()
sys.exit(1 if failed else 0)
"""

# And as torch.multiprocessing.spawn() does: what a child raises is caught there, and it leaves by sys.exit().
CHILDREN = RANK + """
import multiprocessing

def child(rank, mode, place):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    from lockstep._probe import probe
    probe.open(rank, 2)  # as the hooks do when a forked child joins a process group
    if mode == "raise":
        try:
            train(rank, 2, mode, place)
        except Exception:
            sys.exit(1)
    train(rank, 2, "raise" if mode == "printed" else mode, place)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[3])
    ranks = [context.Process(target=child, args=(rank, *sys.argv[1:3])) for rank in range(2)]
    for rank in ranks:
        rank.start()
    ranks[1].join()
    if ranks[1].exitcode:
        ranks[0].terminate()
    ranks[0].join()
    sys.exit(1 if ranks[1].exitcode else 0)
"""


def run(place, program, *words):
    """(exit status of the run, of why, what why tells, what the run printed)"""
    script = os.path.join(place, "train.py")
    with open(script, "w") as file:
        file.write(program)
    env = dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state"), LOCKSTEP_CONFIG="/dev/null")
    env["PYTHONPATH"] = PACKAGE
    for name in ("RANK", "WORLD_SIZE", "LOCKSTEP_DIR", "LOCKSTEP_RUN"):
        env.pop(name, None)
    done = subprocess.run([LOCKSTEP, "run", "--name=r", "--", PYTHON, script, words[0], place, *words[1:]], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=100)
    why = subprocess.run([LOCKSTEP, "why", "--json", "r"], env=env, stdout=subprocess.PIPE,
                         universal_newlines=True, timeout=100)
    text = subprocess.run([LOCKSTEP, "why", "r"], env=env, stdout=subprocess.PIPE, universal_newlines=True,
                          timeout=100).stdout
    again = subprocess.run([LOCKSTEP, "why", "--replay", "r"], env=env, stdout=subprocess.PIPE,
                           universal_newlines=True, timeout=100)
    equal(again.returncode, 0, again.stdout)
    return done.returncode, why.returncode, json.loads(why.stdout), text, done.stdout


def crash_of(told):
    crashes = [verdict for verdict in told["verdicts"] if verdict["kind"] == "crash"]
    equal(len(crashes), 1, told["verdicts"])
    equal((crashes[0]["ranks"], told["unexplained"]), ([1], False), crashes)
    return crashes[0]


@test
def a_rank_that_raises_is_named_with_its_words(place):
    status, why, told, _, _ = run(place, PROCESSES, "raise")
    equal((status, why), (1, 1))
    crash = crash_of(told)
    equal(crash["layer"], "user-code")
    assert "ValueError: bad batch at train.py:12" in crash["cause"], crash


@test
def a_rank_that_is_killed_is_named_and_not_why(place):
    status, why, told, _, _ = run(place, PROCESSES, "kill")
    equal((status, why), (1, 1))
    crash = crash_of(told)
    equal((crash["layer"], crash["cause"]), ("unknown", "gone, exit status unknown"))
    assert crash["confidence"] <= 0.6, crash


@test
def a_rank_that_leaves_by_sys_exit_is_never_told_as_well(place):
    status, why, told, text, _ = run(place, PROCESSES, "exit")
    equal((status, why), (1, 1))
    crash = crash_of(told)  # and not the one that was ended for its sake
    equal((crash["layer"], crash["cause"]), ("unknown", "shut down cleanly, exit status unknown"))
    assert crash["confidence"] <= 0.5 and "nothing is wrong" not in text, (crash, text)


@test
def where_all_ranks_end_well_nothing_is_said(place):
    status, why, told, text, _ = run(place, PROCESSES, "well")
    equal((status, why, told["verdicts"], told["unexplained"]), (0, 0, [], False))
    assert "nothing is wrong" in text, text


@test
def what_a_child_of_multiprocessing_raises_is_noted(place):
    cases = [("raise", "spawn"), ("printed", "spawn"), ("printed", "fork")]
    if sys.version_info >= (3, 13):  # not heard there without a word; torch writes it down
        del cases[0]
    for number, (mode, method) in enumerate(cases):
        directory = os.path.join(place, str(number))
        os.mkdir(directory)
        status, why, told, _, printed = run(directory, CHILDREN, mode, method)
        equal((status, why), (1, 1), (mode, method))
        crash = crash_of(told)
        assert "ValueError: bad batch at train.py:12" in crash["cause"], (mode, method, crash)
        assert "_failures.py" not in printed, printed


@test
def a_failure_that_no_rank_explains_is_not_told_as_well(place):
    status, why, told, text, _ = run(place, PROCESSES.replace("sys.exit(1 if failed else 0)", "sys.exit(7)"), "well")
    equal((status, why, told["verdicts"], told["unexplained"]), (7, 3, [], True))
    assert "cannot tell why it ended with status 7" in text and "nothing is wrong" not in text, text


main()
