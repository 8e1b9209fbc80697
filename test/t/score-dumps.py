# SPDX-License-Identifier: Apache-2.0
"""score-dumps.py LOCKSTEP SCRATCH [SEED [CASES [CLASS...]]] - how well culprits of dead jobs are found.

Jobs with several culprits, made from a seed: each class of them is scored by rank.  A rank counts as a culprit
when its stop made a difference: run again without it, the rank gets further.  One that stopped where it would
have been held up anyway left no trace of it, and nobody could know.  One that had ops open when it stopped may
look as if its host waited for these.  Whether it does is computed: a job in which it did not stop, but hosts of its
program wait at that place for one of these ops, or nobody runs further ahead, or one that left nothing stopped
earlier, must leave the very same dumps.
Recall is told with and without those.  A victim whose file is lost is a candidate, as one that died: it counts
neither way.  SHOW=1 prints every job that is not told right; exits 1 when precision or recall of all jobs is
below 0.99, or fewer than 0.95 of the named have the layer that their logs say.
"""
import json
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flightlab import Job  # noqa: E402

LAYOUTS = [(2, 2, 1), (4, 2, 1), (2, 2, 2), (1, 4, 1), (4, 2, 2), (2, 4, 2), (8, 4, 1), (4, 4, 2), (1, 8, 1),
           (2, 2, 4)]
HOW = [{}, {}, {"active": True}, {"states": False, "status": False}, {"status": False}]


def differs(layout, ahead, seed, stop, rank):
    """Would this rank have got further, had it not stopped?"""
    rest = {r: at for r, at in stop.items() if r != rank}
    return len(Job(*layout, ahead=ahead, seed=seed).run(rest).enqueued[rank]) > stop[rank]


def make(dice, layout, ahead, seed, culprits, near, dead=False):
    job = Job(*layout, ahead=ahead, seed=seed)
    base = dice.randrange(2, min(len(p) for p in job.program.values()))
    stop = {}
    for rank in culprits:
        at = base if near == 0 else base + dice.randrange(-near, near + 1)
        stop[rank] = max(1, min(at, len(job.program[rank]) - 1))
    job.run(stop, dead=dead)
    job.stop = stop
    truth = {r for r in stop if len(job.enqueued[r]) == stop[r] and differs(layout, ahead, seed, stop, r)}
    return job, truth


def seen(job, rank, how):
    """What a dump says, but for when."""
    dump = job.dump(rank, **how)
    return {**dump, "entries": [{k: v for k, v in entry.items() if not k.startswith("time_")}
                                for entry in dump["entries"]]}


def excused(job, stop, waits, rank, how, left):
    """Stops and waits of hosts that leave the same dumps though this rank did not stop; None: there are none."""
    layout = (job.tp, job.dp, job.pp)
    rest = {r: at for r, at in stop.items() if r != rank}
    how = {k: v for k, v in how.items() if k in ("states", "active", "status")}
    place = (job.stage(rank), len(job.enqueued[rank]))
    tries = [(job.ahead, rest, {**waits, place: op}) for op in job.open(rank)]
    tries += [(len(job.open(rank)), rest, waits)]
    tries += [(job.ahead, {**rest, r: at}, waits) for r in sorted(left) for at in range(len(job.program[r]))]
    for ahead, stops, other in tries:
        again = Job(*layout, ahead=ahead).run(stops, waits=other)
        if all(seen(job, r, how) == seen(again, r, how) for r in range(job.world) if r not in left):
            return stops, other
    return None


def unknowable(job, stop, missed, how):
    """Those of the missed without whom the rest explains all that was left."""
    skip = set(how.get("skip", ()))
    left, waits, found = skip | set(how.get("empty", ())), {}, set()
    if 4 * len(skip) > job.world:  # then the dumps may only not have been collected
        found |= missed & skip
    for rank in sorted(missed - left):
        other = not job.dead and excused(job, stop, waits, rank, how, left)
        if other:
            stop, waits = other
            found.add(rank)
    return found


def several(dice, layout, most=4):
    world = layout[0] * layout[1] * layout[2]
    return dice.sample(range(world), dice.randrange(2, min(most, max(2, world // 4)) + 1))


def case_same(dice, seed):
    """All stop at the same place of their programs."""
    layout, ahead = dice.choice(LAYOUTS), dice.choice([1, 1, 2, 4])
    job, truth = make(dice, layout, ahead, seed, several(dice, layout), 0)
    return job, truth, {**dice.choice(HOW)}


def case_apart(dice, seed):
    """They stop at different places."""
    layout, ahead = dice.choice(LAYOUTS), dice.choice([1, 1, 2, 4])
    job, truth = make(dice, layout, ahead, seed, several(dice, layout), 4)
    return job, truth, {**dice.choice(HOW)}


def case_left(dice, seed):
    """They leave no dump, an empty one, or one like the others'."""
    layout, ahead = dice.choice(LAYOUTS), dice.choice([1, 1, 2, 4])
    dead = dice.random() < 0.5
    job, truth = make(dice, layout, ahead, seed, several(dice, layout), dice.choice([0, 0, 2]), dead=dead)
    how = {**dice.choice(HOW), "skip": set(), "empty": set()}
    for rank in sorted(truth):
        # One whose device is gone writes nothing; were there a dump, it would look as all the others in that op.
        left = "skip" if dead else dice.choice(["skip", "empty", None])
        if left:
            how[left].add(rank)
    return job, truth, how


def case_host(dice, seed):
    """A host dies: its ranks, one after the other in number, stop at once and leave nothing."""
    layout, ahead = dice.choice([t for t in LAYOUTS if t[0] * t[1] * t[2] >= 8]), dice.choice([1, 2, 4])
    world, size = layout[0] * layout[1] * layout[2], dice.choice([2, 4]) if layout[0] > 1 else 2
    first = dice.randrange(world // size) * size
    job, truth = make(dice, layout, ahead, seed, range(first, first + size), 0, dead=True)
    left = set(range(first, first + size)) if truth else set()
    return job, truth and left, {**dice.choice(HOW), dice.choice(["skip", "empty"]): left}


def case_lost(dice, seed):
    """As case_left(), but the dump of a victim was lost as well."""
    job, truth, how = case_left(dice, seed)
    while 4 * (len(how["skip"]) + 1) > job.world:  # with more of them missing, nobody can say who waits
        job, truth, how = case_left(dice, seed)
    victims = sorted(set(range(job.world)) - truth)
    how["lost"] = {dice.choice(victims)}
    how["skip"] = how["skip"] | how["lost"]
    return job, truth, how


REASONS = [  # what a rank's log or its node's says, and the layer that this is
    ("storage", "OSError: [Errno 5] Input/output error: '/data/7'", None),
    ("user-code", "ValueError: bad batch", None),
    ("gpu-memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", None),
    ("host-memory", None, "Out of memory: Killed process {pid} (python3) total-vm:9kB"),
    ("pcie", None, "NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid={pid}, name=python3, GPU has fallen off the bus."),
    ("unknown", None, None),
]


def case_layer(dice, seed):
    """As case_apart(), but logs of ranks and kernels lie beside the dumps and say why, each its own."""
    job, truth, how = case_apart(dice, seed)
    return job, truth, {**how, "reasons": {rank: dice.choice(REASONS) for rank in truth}}


def write_logs(directory, job, reasons):
    """Of every rank, and of nodes of two ranks; old lines and such of other processes are in them, too."""
    kernel = {}
    for rank in range(job.world):
        node, pid = f"n{rank // 2}", 4000 + rank
        lines = [f"{node}:{pid}:{pid} [0] NCCL INFO comm 0x55 rank {rank} nranks {job.world} cudaDev {rank % 2} "
                 f"busId {rank % 2 + 16:x}000 commId 0x1 - Init COMPLETE"]
        _, error, said = reasons.get(rank, (None, None, None))
        if rank not in reasons:
            lines += ["Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)"]
        if error:
            lines += ["Traceback (most recent call last):", '  File "t.py", line 1, in f', "    g()", error]
        kernel.setdefault(node, [f"Nov 14 12:00:00 {node} kernel: usb 1-1: new device"])
        if said:
            kernel[node] += [f"Nov 14 22:13:20 {node} kernel: {said.format(pid=pid, bus=rank % 2 + 16)}"]
        with open(f"{directory}/rank_{rank}.log", "w") as file:
            file.write("\n".join(lines) + "\n")
    for node, lines in kernel.items():
        with open(f"{directory}/dmesg-{node}.log", "w") as file:
            file.write("\n".join(lines) + "\n")


CLASSES = {"layer": case_layer, "same": case_same, "apart": case_apart, "left": case_left, "host": case_host, "lost": case_lost}


def why(lockstep, directory):
    done = subprocess.run([lockstep, "why", "--json", directory], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["verdicts"]
    except ValueError:
        return []


def main():
    lockstep, scratch = sys.argv[1:3]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    cases = int(sys.argv[4]) if len(sys.argv) > 4 else 100
    total, layers, right = [0, 0, 0], 0, 0
    for name in sys.argv[5:] or CLASSES:
        hit = missed = wrong = exact = count = hidden = 0
        for n in range(cases):
            dice = random.Random(f"{seed} {name} {n}")
            job, truth, how = CLASSES[name](dice, n)
            if not truth:
                continue
            directory = f"{scratch}/score"
            shutil.rmtree(directory, ignore_errors=True)
            lost = how.pop("lost", set())
            reasons = how.pop("reasons", None)
            job.write(directory, **how)
            if reasons is not None:
                write_logs(directory, job, reasons)
            verdicts = why(lockstep, directory)
            # One whose file is lost is a candidate; that it only waited nobody can know.
            named = {rank for v in verdicts for rank in v["ranks"]} - lost
            hit, missed, wrong = hit + len(named & truth), missed + len(truth - named), wrong + len(named - truth)
            for rank in reasons or ():
                told = {v["layer"] for v in verdicts if rank in v["ranks"]}
                layers, right = layers + bool(told), right + (told == {reasons[rank][0]})
                if os.environ.get("SHOW") and told and told != {reasons[rank][0]}:
                    print(f"  {name} {n}: rank {rank} is {reasons[rank][0]}, told {told}")
            count, exact = count + 1, exact + (named == truth)
            unknown = unknowable(job, job.stop, truth - named, how)
            hidden += len(unknown)
            if os.environ.get("SHOW") and named != truth:
                print(f"  {name} {n}: {(job.tp, job.dp, job.pp)} ahead {job.ahead} {how} truth {sorted(truth)} "
                      f"missed {sorted(truth - named)} unknowable {sorted(unknown)} wrong {sorted(named - truth)} "
                      f"{[(v['kind'], v['cause']) for v in verdicts]}")
        print(f"{name:8} {count:4} jobs: precision {hit / max(1, hit + wrong):.3f} recall {hit / max(1, hit + missed):.3f} "
              f"({hit / max(1, hit + missed - hidden):.3f} without {hidden} that nobody can know) "
              f"all right {exact / max(1, count):.3f}")
        total = [total[0] + hit, total[1] + wrong, total[2] + missed - hidden]
    if layers:
        print(f"layer of {layers} culprits that are named: {right / layers:.3f} exact")
    return right < 0.95 * layers or min(total[0] / max(1, total[0] + total[1]), total[0] / max(1, total[0] + total[2])) < 0.99


sys.exit(main())
