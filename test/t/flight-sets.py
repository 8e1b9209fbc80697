# SPDX-License-Identifier: Apache-2.0
"""flight-sets.py OUT [SEED] - labelled sets of flight-recorder dumps for 'lockstep bench autopsy OUT'.

Jobs are simulated with hosts and devices: a host enqueues its program in order and runs at most `ahead` ops before the
oldest that is not over; a device takes one op after the other; a collective is over when the devices of all members have
reached it.  Faults: a host that stops (hang), one that holds the GIL (a dump without ops), one that is stopped by a signal
(no dump), a device that stops inside an op whose data it has already sent, a skipped collective, two groups in another
order, a peer that is stopped in the middle of a transfer, dumps that were cut off, and healthy jobs.  Each is written with all
dumps, with those of one node, and with that of one rank.  The expected names follow from the fault and from what was
left: where the dumps that remain look the same for another culprit, nobody may be named.
"""
import json
import os
import pickle
import random
import sys

BASE_NS = 1_790_000_000_000_000_000
COLLECTIVES = [("all_reduce", [4096, 64]), ("_reduce_scatter_base", [8192]), ("_allgather_base", [2048])]


class Job:
    def __init__(self, tp, dp, steps, ahead, dice):
        self.world, self.ahead, self.dice = tp * dp, ahead, dice
        self.groups = [("0", "default_pg", list(range(self.world)))]
        self.program = {r: [] for r in range(self.world)}
        tps = [self.group("tp", [d * tp + t for t in range(tp)]) for d in range(dp)] if tp > 1 else None
        dps = [self.group("dp", [d * tp + t for d in range(dp)]) for t in range(tp)] if tp > 1 else None
        for step in range(steps):
            for r in range(self.world):
                ops = [(0,) + COLLECTIVES[step % 3]]
                if tps:
                    ops = [(tps[r // tp], "all_reduce", [1024, 64 + k]) for k in range(3)]
                    ops += [(dps[r % tp], "_reduce_scatter_base", [4096]), (0, "all_reduce", [1])]
                self.program[r] += ops
        self.host_stop, self.device_stop, self.stuck = {}, {}, {}

    def group(self, about, ranks):
        self.groups.append((str(len(self.groups)), about, ranks))
        return len(self.groups) - 1

    def run(self):
        """`stuck`: {rank: number of its op whose transfer never ends for it, though others ended it}."""
        self.enqueued = {r: [] for r in self.program}
        self.done = {r: 0 for r in self.program}
        reached, moved, clock = {}, True, 0
        while moved:
            moved = False
            for r in self.dice.sample(list(self.program), self.world):
                mine = self.enqueued[r]
                if len(mine) < min(len(self.program[r]), self.host_stop.get(r, 1 << 30), self.done[r] + self.ahead):
                    group = self.program[r][len(mine)][0]
                    seq = 1 + sum(op[0] == group for op in self.program[r][:len(mine)])
                    clock += self.dice.randrange(1000, 40000)
                    mine.append((self.program[r][len(mine)], seq, BASE_NS + clock))
                    moved = True
                if self.done[r] < len(mine):
                    op, seq, _ = mine[self.done[r]]
                    key = (op[0], seq, op[1], str(op[2]))
                    if r not in reached.setdefault(key, set()):
                        reached[key].add(r)
                        moved = True
                    last = self.done[r] == self.device_stop.get(r, self.stuck.get(r, 1 << 30))
                    if reached[key] >= set(self.groups[op[0]][2]) and not last:
                        self.done[r] += 1
                        moved = True
        return self

    def entry(self, r, number, started):
        (group, kind, sizes), seq, time = self.enqueued[r][number]
        over = number < self.done[r]
        state = "completed" if over else "started" if started and number == self.done[r] else "scheduled"
        mine = [g for g in self.groups if r in g[2]].index(self.groups[group])
        return {"record_id": number, "pg_id": mine, "process_group": self.groups[group][:2],
                "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:" + kind,
                "time_created_ns": time, "input_sizes": [sizes], "input_dtypes": ["Float"], "output_sizes": [sizes],
                "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
                "time_discovered_completed_ns": time + 5000 if over else None, "retired": over, "timeout_ms": 600000,
                "is_p2p": False, "frames": [{"name": "forward", "filename": "/job/model.py", "line": 40 + number % 7}]}

    def dump(self, r, started, states):
        entries = [self.entry(r, n, started) for n in range(len(self.enqueued[r]))]
        if not states:
            for entry in entries:
                entry.update(state="scheduled", time_discovered_completed_ns=None, retired=False)
        return {"version": "2.10", "nccl_version": "2.27.3", "entries": entries,
                "pg_config": {name: {"name": name, "desc": about, "ranks": str(ranks)}
                              for name, about, ranks in self.groups}}


class Sets:
    def __init__(self, out, seed):
        self.out, self.dice, self.table = out, random.Random(seed), []
        os.makedirs(out, exist_ok=True)

    def write(self, name, job, ranks, empty=(), cut=(), started=False, states=True, age_s=600, as_json=False):
        directory = os.path.join(self.out, name)
        os.makedirs(directory)
        for r in ranks:
            dump = job.dump(r, started, states)
            if r in empty:
                dump["entries"] = []
            path = os.path.join(directory, f"nccl_trace_rank_{r}" + (".json" if as_json else ""))
            data = json.dumps(dump).encode() if as_json else pickle.dumps(dump, 2)
            with open(path, "wb") as file:
                file.write(data[:len(data) // 3] if r in cut else data)
            newest = max([op[2] for op in job.enqueued[r]], default=BASE_NS)
            os.utime(path, ns=(newest + int(age_s * 1e9),) * 2)

    def add(self, name, category, kind, ranks, cause):
        self.table.append((name, category, kind, "*", ranks, "-", cause, "made"))

    def close(self):
        with open(os.path.join(self.out, "cases.tsv"), "w", encoding="utf-8") as file:
            file.write("\t".join(("name", "category", "kind", "layer", "ranks", "words", "cause", "source")) + "\n")
            for line in sorted(self.table):
                file.write("\t".join(line) + "\n")


QUIET = "none,hang,desync,node-fault"  # a verdict is allowed, but it may name nobody


def fault_of(kind, job, rank, at):
    """Makes the fault; returns the ranks without a dump and those with an empty one."""
    if kind in ("hang", "gil", "sigstop"):
        job.host_stop[rank] = at
    elif kind == "device":
        job.device_stop[rank] = at
    elif kind == "skip":
        del job.program[rank][at]
    elif kind == "order":
        job.program[rank][at], job.program[rank][at + 1] = job.program[rank][at + 1], job.program[rank][at]
    elif kind == "transfer":
        job.host_stop[rank] = at + 1
        neighbour = (rank + 1) % job.world
        job.stuck[neighbour] = at
        job.host_stop[neighbour] = at + 1
    return {"sigstop": {rank}, "transfer": {rank}}.get(kind, set()), {rank} if kind == "gil" else set()


def told(kind, job, rank, kept, whole, states):
    """What the dumps of these ranks can tell: the culprit, or nobody."""
    seen = rank in kept
    missing = job.world - len(kept)
    if len(kept) == 1 or (kind in ("sigstop", "transfer") and 4 * missing > job.world):
        return "-"
    if kind in ("sigstop", "transfer"):
        return str(rank)
    if kind in ("skip", "order") and len(kept) == 2:  # one against one
        return "-"
    if not whole and (not seen or len(job.groups) > 1):
        return f"?{rank}" if seen else "-"
    return str(rank) if seen else "-"


def faults(sets):
    layouts = [(1, 4, 4), (1, 8, 1), (1, 16, 6), (2, 4, 1), (4, 4, 4), (2, 8, 3)]
    for kind in ("hang", "device", "gil", "sigstop", "skip", "order", "transfer"):
        for tp, dp, ahead in layouts:
            if (kind == "device" and ahead == 1) or (kind == "transfer" and tp > 1):
                continue
            rank, at = sets.dice.randrange(tp * dp), sets.dice.randrange(6, 9)
            if kind in ("skip", "order") and tp > 1:
                at = 7 if kind == "skip" else 8  # the last of three tensor-parallel ops; data-parallel and world
            for part in ("all", "node", "rank"):
                job = Job(tp, dp, 14 if tp == 1 else 6, ahead, random.Random(f"{kind}{tp}{dp}"))
                if kind == "transfer":
                    job.program = {r: [(0, "all_reduce", [4096])] * 12 for r in job.program}
                nothing, empty = fault_of(kind, job, rank, at)
                job.run()
                half = range(job.world // 2) if rank < job.world // 2 or sets.dice.random() < 0.5 \
                    else range(job.world // 2, job.world)
                ranks = {"all": range(job.world), "node": half, "rank": [rank]}[part]
                kept = [r for r in ranks if r not in nothing]
                if not kept:
                    continue
                name = f"{kind}-{tp}x{dp}-{part}"
                states = kind in ("device", "transfer") or sets.dice.random() < 0.7
                named = told(kind, job, rank, kept, part == "all", states)
                sets.write(name, job, kept, empty=empty, started=sets.dice.random() < 0.5, states=states,
                           as_json=sets.dice.random() < 0.3)
                kinds = "hang,desync,crash" if named not in ("-",) and named[0] != "?" else QUIET
                sets.add(name, f"dumps-{kind}", kinds, named, f"rank {rank}: {kind} before op {at}")


def others(sets):
    for tp, dp, ahead in [(1, 8, 2), (4, 2, 2)]:
        job = Job(tp, dp, 5, ahead, random.Random(5)).run()
        name = f"healthy-{tp}x{dp}"
        sets.write(name, job, range(job.world))
        sets.add(name, "dumps-healthy", "none", "-", "every op of every rank is over")
    for tp, dp, ahead in [(1, 8, 2), (2, 4, 2)]:
        job = Job(tp, dp, 14, ahead, random.Random(6))
        job.host_stop = {r: 9 + r % 2 for r in job.program}
        job.run()
        name = f"on-demand-{tp}x{dp}"
        sets.write(name, job, range(job.world), age_s=0.2)
        sets.add(name, "dumps-healthy", "none", "-", "dumps on demand of a job at work: the newest ops are fresh")
    for dp, lost in [(8, 1), (16, 2)]:
        job = Job(1, dp, 14, 3, random.Random(7))
        job.host_stop = {0: 7}
        job.run()
        cut = set(range(dp - 3, dp))
        name = f"cut-off-{dp}"
        sets.write(name, job, [r for r in range(dp) if r not in range(lost)], cut=cut)
        sets.add(name, "dumps-cut", QUIET if 4 * (lost + 3) > dp else "hang,crash",
                 "-" if 4 * (lost + 3) > dp else "0,1", "the launcher ended the survivors while they wrote")


def main(out, seed="1"):
    sets = Sets(out, int(seed))
    faults(sets)
    others(sets)
    sets.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
