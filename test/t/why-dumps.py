# SPDX-License-Identifier: Apache-2.0
"""why-dumps.py LOCKSTEP SCRATCH - hung jobs of many shapes; who held them must be found.  Prints TAP."""
import json
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flightlab import Job  # noqa: E402

lockstep, scratch = sys.argv[1:3]
number = failed = 0


def why(directory):
    done = subprocess.run([lockstep, "why", "--json", directory], capture_output=True, text=True)
    try:
        return done.returncode, json.loads(done.stdout), done.stderr
    except ValueError:
        return done.returncode, {"verdicts": []}, done.stderr


def named(told, kind="hang"):
    return sorted({rank for v in told["verdicts"] if v["kind"] == kind for rank in v["ranks"]})


def ok(good, name, *more):
    global number, failed
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
    for text in more if not good else ():
        print("# " + str(text).replace("\n", "\n# "), file=sys.stderr)


def fresh():
    shutil.rmtree(f"{scratch}/job", ignore_errors=True)
    return f"{scratch}/job"


def expect(name, job, ranks, kind="hang", exit_status=1, **how):
    directory = fresh()
    job.write(directory, **how)
    status, told, err = why(directory)
    ok(status == exit_status and named(told, kind) == sorted(ranks), name,
       f"exit {status}, named {named(told, kind)}, expected {sorted(ranks)}", json.dumps(told, indent=1)[:3000], err)
    return told


LAYOUTS = [(2, 2, 1), (4, 2, 1), (2, 2, 2), (1, 4, 1), (4, 2, 2), (2, 4, 2)]
HOW = {
    "as written": {}, "only scheduled": {"states": False, "status": False},
    "only what is not over": {"active": True}, "JSON": {"protocol": "json", "pattern": "nccl_trace_rank_{}"},
    "protocol 5": {"protocol": 5}, "protocol 4": {"protocol": 4}, "protocol 3": {"protocol": 3},
}

for how, options in HOW.items():
    bad = []
    for seed in range(12):
        dice = random.Random(seed)
        job = Job(*LAYOUTS[seed % len(LAYOUTS)], ahead=1, seed=seed)
        culprit = dice.randrange(job.world)
        job.run({culprit: dice.randrange(2, len(job.program[culprit]))})
        directory = fresh()
        job.write(directory, **options)
        status, told, err = why(directory)
        if status != 1 or named(told) != [culprit]:
            bad.append((seed, (job.tp, job.dp, job.pp), culprit, status, named(told), told["verdicts"][:1], err))
    ok(not bad, f"one culprit in 12 jobs, {how}", *bad)

for how in ("as written", "only what is not over"):
    bad = []
    for seed in range(12):
        dice = random.Random(100 + seed)
        job = Job(*LAYOUTS[seed % len(LAYOUTS)], ahead=4, seed=seed)
        culprit = dice.randrange(job.world)
        job.run({culprit: dice.randrange(2, len(job.program[culprit]))})
        directory = fresh()
        job.write(directory, **HOW[how])
        status, told, err = why(directory)
        if status != 1 or named(told) != [culprit]:
            bad.append((seed, (job.tp, job.dp, job.pp), culprit, status, named(told), told["verdicts"][:1], err))
    ok(not bad, f"hosts that run four ops ahead, {how}", *bad)

bad = []
for seed in range(12):
    dice = random.Random(200 + seed)
    job = Job(4, 2, 1, ahead=3, seed=seed)
    at = dice.randrange(2, len(job.program[0]))
    culprits = sorted({dice.randrange(4), 4 + dice.randrange(4)})
    job.run({culprit: at for culprit in culprits})
    directory = fresh()
    job.write(directory, active=True)
    status, told, err = why(directory)
    if status != 1 or named(told) != culprits:
        bad.append((seed, at, culprits, status, named(told), told["verdicts"][:1], err))
ok(not bad, "two culprits at once are both named", *bad)

expect("two of four ranks that stopped, though nobody waits for one of them yet", Job(2, 2, 1).run({3: 14, 0: 9}),
       [0, 3], active=True)
expect("one that waits itself, in ops each of which others passed", Job(8, 4, 1, ahead=4).run({29: 7, 27: 5, 13: 6}),
       [13, 27, 29])
expect("one that waits for a receive with which its like went on to send", Job(2, 4, 2, ahead=4).run(
    {5: 6, 7: 3, 0: 2, 8: 7}), [0, 5, 7, 8], status=False)
expect("one that may wait for a rank that left nothing is not named beside others, where no states are known",
       Job(8, 4, 1, ahead=4).run({17: 7, 21: 8, 14: 7, 1: 4}), [1, 14, 17, 21], states=False, status=False,
       skip={21}, empty={1, 14, 17})
job = Job(2, 2, 1, seed=5).run({3: 7})
expect("a rank that left no dump", job, [3], skip={3})
expect("a rank that left an empty dump", job, [3], empty={3})
directory = fresh()
job.write(directory)
open(f"{directory}/_dump_3", "wb").close()
status, told, err = why(directory)
ok(status == 1 and named(told) == [3], "a file of no bytes", told, err)
whole = open(f"{directory}/_dump_2", "rb").read()
open(f"{directory}/_dump_3", "wb").write(whole[:len(whole) // 2])
status, told, err = why(directory)
ok(status == 1 and named(told) == [3], "a dump that ends in the middle", told, err)
ok([s["file"] for s in told["skipped"]] == ["_dump_3"], "which is named as skipped", told["skipped"])
open(f"{directory}/notes.bin", "wb").write(bytes(range(256)) * 10)
open(f"{directory}/_dump_9.json", "w").write('{"entries": [' + "[" * 1000)
status, told, err = why(directory)
ok(status == 1 and len(told["skipped"]) == 3 and "notes.bin" in err, "foreign files are named and skipped", told, err)

bad = []
for pattern in ("rank{}.dump", "trace.{}.bin", "dump-{}-of-4", "{}", "fr_rank_{}.pickle"):
    directory = fresh()
    job.write(directory, pattern=pattern)
    status, told, err = why(directory)
    if named(told) != [3]:
        bad.append((pattern, told["verdicts"], err))
ok(not bad, "dumps are known by their content, whatever the style of their names", *bad)
for newer, culprit in (("a", 3), ("b", 1)):
    directory = fresh()
    job.write(f"{directory}/a")
    Job(2, 2, 2, seed=6).run({1: 5}).write(f"{directory}/b")
    for folder in "ab":
        for name in os.listdir(f"{directory}/{folder}"):
            os.utime(f"{directory}/{folder}/{name}", (1000 + (folder == newer),) * 2)
    status, told, err = why(directory)
    ok(named(told) == [culprit] and len(told["verdicts"]) == 1 and
       {s["file"][0] for s in told["skipped"]} == {"b" if newer == "a" else "a"} and "another job" in err,
       f"of two jobs in one directory the newer one is told, the other skipped by name ({newer})", told, err)
job = Job(2, 2, 1).run({})
expect("a job that is over and well", job, [], exit_status=0)
expect("with nothing but scheduled ops it cannot be told", job, [], exit_status=3, states=False, status=False)
expect("half of the dumps alone are not enough to blame the rest", Job(1, 4, 1).run({0: 3}), [],
       exit_status=1, skip={0, 1, 2})


def other(rank, index, **changes):
    job = Job(2, 2, 1, seed=7)
    op = list(job.program[rank][index])
    op[0], op[2], op[3] = changes.get("name", op[0]), changes.get("sizes", op[2]), changes.get("dtype", op[3])
    job.program[rank][index] = tuple(op)
    return job.run({})


told = expect("another collective", other(2, 7, name="all_gather"), [2], "desync")
ok(told["verdicts"][0]["cause"] == "different collectives" and len(told["verdicts"][0]["because"]) >= 2,
   "both sides are said", told)
job = other(2, 7, sizes=[5])
told = expect("another size, among all ranks", job, [2], "desync")
ok(told["verdicts"] and told["verdicts"][0]["cause"] == "different sizes", "is called so", told)
told = expect("another element type", other(1, 7, dtype="Half"), [1], "desync", states=False, status=False)
ok(told["verdicts"] and told["verdicts"][0]["cause"] == "different element types", "is called so, too", told)
told = expect("a pair that disagrees: the one is named whose op the other pairs do not have", other(1, 2, sizes=[5]), [1], "desync")
ok(not named(told), "and nobody else is blamed", told)

bad = []
for seed, (layout, odd, index, absent, at) in enumerate((((4, 2, 1), 4, 7, 1, 7), ((4, 2, 1), 6, 3, 1, 3),
                                                         ((2, 4, 2), 3, 9, 12, 8), ((8, 4, 1), 22, 7, 26, 7))):
    job = Job(*layout, seed=seed)
    op = job.program[odd][index]
    job.program[odd][index] = (*op[:2], [5], op[3])
    directory = fresh()
    job.run({absent: at}).write(directory)
    status, told, err = why(directory)
    if (named(told, "desync"), named(told), len(told["verdicts"])) != ([odd], [absent], 2):
        bad.append((layout, odd, absent, told["verdicts"]))
ok(not bad, "one with another size and one that stopped, in the same group or in others: both are told", *bad)
job = Job(2, 2, 1, seed=8)
job.program[0][6], job.program[0][7] = job.program[0][7], job.program[0][6]
told = expect("two groups in opposite order", job.run({}), [], "hang")
ok(told["verdicts"] and told["verdicts"][0]["kind"] == "desync" and 0 in told["verdicts"][0]["ranks"],
   "is a desync that names who turned them round", told)
job = Job(2, 2, 1, seed=9).run({1: 5})
directory = fresh()
job.write(directory)
open(f"{directory}/fault_injection.log", "w").write("Fault ranks: [2, 3]\nRank 2, fault_type: GPU_ERROR\n")
status, told, err = why(directory)
ok(named(told) == [1], "a text beside the dumps that says nothing about an end changes nothing", told)
for rank in range(4):
    open(f"{directory}/rank_{rank}.log", "w").write("step 1\n" + (
        'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    g()\nOSError: [Errno 5] Input/output '
        "error: '/data/7'\n" if rank == 1 else "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)\n"))
status, told, err = why(directory)
verdict = told["verdicts"][0]
ok(len(told["verdicts"]) == 1 and (verdict["kind"], verdict["layer"], verdict["ranks"]) == ("crash", "storage", [1]),
   "dumps and logs of one fault are one verdict, with the log's cause", told)
ok({"log", "dumps"} <= {line["source"] for line in verdict["because"]}, "and the evidence of both", told)
job = Job(4, 2, 1, seed=11).run({1: 5, 6: 5, 7: 5})
directory = fresh()
job.write(directory)
for rank, error in ((1, "OSError: [Errno 5] Input/output error: '/data/7'"), (6, "ValueError: bad batch")):
    open(f"{directory}/rank_{rank}.log", "w").write(
        f'Traceback (most recent call last):\n  File "t.py", line 1, in f\n    g()\n{error}\n')
status, told, err = why(directory)
ok(sorted((v["kind"], v["layer"], v["ranks"]) for v in told["verdicts"]) ==
   [("crash", "storage", [1]), ("crash", "user-code", [6]), ("hang", "unknown", [7])],
   "of three culprits two say why, each its own: all are named, each in its layer", told)
job = Job(1, 8, 1, seed=12).run({1: 3})
directory = fresh()
job.write(directory, skip={5})
status, told, err = why(directory)
ok(sorted(v["ranks"] for v in told["verdicts"]) == [[1], [5]] and
   {v["ranks"][0]: v["confidence"] < 0.5 for v in told["verdicts"]} == {1: False, 5: True},
   "who left nothing is a candidate beside the culprit, with little confidence", told)
open(f"{directory}/rank_5.log", "w").write("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)\n")
status, told, err = why(directory)
ok(named(told) == [1], "but not when its log says that it waited", told)
score = subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "score-dumps.py"),
                        lockstep, scratch, "2026", "25"], capture_output=True, text=True)
ok(score.returncode == 0, "of several culprits at once nearly all are named, and hardly anybody else",
   score.stdout, score.stderr)
print(f"1..{number}")
sys.exit(failed > 0)
