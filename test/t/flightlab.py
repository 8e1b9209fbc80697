# SPDX-License-Identifier: Apache-2.0
"""flightlab.py - jobs that hang, and the flight-recorder dumps that their ranks leave.

A job is a program of collectives per rank over tensor-, data- and pipeline-parallel groups.  It is run
with the rules of the real thing: a host enqueues ops in its program's order and may run `ahead` ops before
the oldest that is not over; a collective is over when every member has entered it.  A program may also have
places at which its host waits for an op, as for a loss that is printed.  A culprit stops before one of its ops.
The job runs until nobody can go on; then each rank writes what it has recorded, as PyTorch's recorder does.
"""
import json
import os
import pickle
import random

BASE_NS = 1_700_000_000_000_000_000


class Group:
    def __init__(self, name, desc, ranks):
        self.name, self.desc, self.ranks = str(name), desc, ranks


class Job:
    def __init__(self, tp, dp, pp, steps=2, layers=3, ahead=1, seed=0):
        self.tp, self.dp, self.pp, self.ahead = tp, dp, pp, ahead
        self.world = tp * dp * pp
        self.random = random.Random(seed)
        self.groups, self.program = [], {r: [] for r in range(self.world)}
        rank = lambda s, d, t: (s * dp + d) * tp + t
        world = self.group("default_pg", range(self.world))
        tps = [[self.group("TENSOR_MODEL_PARALLEL_GROUP", [rank(s, d, t) for t in range(tp)])
                for d in range(dp)] for s in range(pp)]
        dps = [[self.group("DATA_PARALLEL_GROUP", [rank(s, d, t) for d in range(dp)])
                for t in range(tp)] for s in range(pp)]
        pps = [[self.group("PIPELINE_MODEL_PARALLEL_GROUP", [rank(s, d, t) for s in range(pp)])
                for t in range(tp)] for d in range(dp)]
        for step in range(steps):
            for s in range(pp):
                for d in range(dp):
                    for t in range(tp):
                        r = rank(s, d, t)
                        add = self.program[r].append
                        if s > 0:
                            add(("recv", pps[d][t], r, rank(s - 1, d, t)))
                        for layer in range(layers):
                            add(("all_reduce", tps[s][d], [8192, 1, 64 + layer], "BFloat16"))
                        if s + 1 < pp:
                            add(("send", pps[d][t], r, rank(s + 1, d, t)))
                            add(("recv", pps[d][t], r, rank(s + 1, d, t)))
                        for layer in range(layers):
                            add(("all_reduce", tps[s][d], [8192, 1, 64], "BFloat16"))
                        if s > 0:
                            add(("send", pps[d][t], r, rank(s - 1, d, t)))
                        add(("_reduce_scatter_base", dps[s][t], [4096], "Float"))
                        add(("all_reduce", world, [1], "Float"))
        self.world_group = world

    def group(self, desc, ranks):
        group = Group(len(self.groups), desc, list(ranks))
        self.groups.append(group)
        return group

    def stage(self, r):
        """Ranks of one stage have the same program, each with groups of its own."""
        return r // (self.tp * self.dp)

    def held(self, r, at, enqueued, entered):
        """Does the host wait before it enqueues this op of its program?"""
        awaited = self.waits.get((self.stage(r), at))
        return (sum(not self.over(op, entered) for op in enqueued[r]) >= self.ahead or
                awaited is not None and not self.over(enqueued[r][awaited], entered))

    def run(self, stop, dead=False, waits={}):
        """`stop`: {rank: index of the op that it never enters}.  `dead`: its device dies with it, so that
        what it has entered and is not over never will be.  `waits`: {(stage, index of an op): index of the
        earlier one that must be over before hosts of that stage enqueue it}.
        """
        self.dead, self.waits = set(), waits
        enqueued = {r: [] for r in self.program}    # ops as dictionaries, in order
        counts, entered, clock = {}, {}, 0
        moved = True
        while moved:
            moved = False
            order = list(self.program)
            self.random.shuffle(order)
            for r in order:
                at = len(enqueued[r])
                if dead and at == stop.get(r):
                    self.dead |= {op["key"] for op in enqueued[r] if not self.over(op, entered)}
                if at >= len(self.program[r]) or at >= stop.get(r, 1 << 30):
                    continue
                if self.held(r, at, enqueued, entered):
                    continue
                op = self.enter(r, self.program[r][at], counts, entered)
                clock += self.random.randrange(1000, 50000)
                op["time"] = BASE_NS + clock
                enqueued[r].append(op)
                moved = True
        self.enqueued, self.entered, self.counts = enqueued, entered, counts
        return self

    def enter(self, r, what, counts, entered):
        kind, group = what[0], what[1]
        if kind in ("send", "recv"):
            pair = (group.name, r, what[3]) if kind == "send" else (group.name, what[3], r)
            n = counts[(kind, pair)] = counts.get((kind, pair), 0) + 1
            counts[(r, group.name, "p2p")] = counts.get((r, group.name, "p2p"), 0) + 1
            entered.setdefault((pair, n), set()).add(kind)
            return {"what": what, "key": (pair, n), "need": 2, "seq": 0,
                    "p2p_seq": counts[(r, group.name, "p2p")]}
        n = counts[(r, group.name)] = counts.get((r, group.name), 0) + 1
        entered.setdefault((group.name, n), set()).add((r, kind, str(what[2:])))
        return {"what": what, "key": (group.name, n), "need": len(group.ranks), "seq": n, "p2p_seq": 0}

    def over(self, op, entered):
        there = entered[op["key"]]
        if len(there) < op["need"] or op["key"] in self.dead:
            return False
        return op["need"] == 2 and op["p2p_seq"] or len({member[1:] for member in there}) == 1

    def entry(self, r, op, number, states):
        what, group = op["what"], op["what"][1]
        over = self.over(op, self.entered)
        name = "nccl:" + what[0]
        sizes, dtype = what[2:] if not op["p2p_seq"] else ([8192, 1, 64], "BFloat16")
        if op["p2p_seq"]:
            mine, peer = group.ranks.index(r), group.ranks.index(what[3])
            name += f" {mine}{'->' if what[0] == 'send' else '<-'}{peer}"
        state = "completed" if over else "scheduled"
        return {
            "record_id": number, "pg_id": self.local(r, group), "process_group": (group.name, group.desc),
            "collective_seq_id": op["seq"], "p2p_seq_id": op["p2p_seq"], "op_id": number,
            "profiling_name": name, "time_created_ns": op["time"],
            "input_sizes": [sizes], "input_dtypes": [dtype], "output_sizes": [sizes],
            "output_dtypes": [dtype], "state": state if states else "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": op["time"] + 5000 if over and states else None,
            "retired": bool(over and states), "timeout_ms": 600000, "is_p2p": bool(op["p2p_seq"]),
            "frames": [{"name": "forward", "filename": "/job/model.py", "line": 40 + number % 7},
                       {"name": "<module>", "filename": "/job/train.py", "line": 12}],
        }

    def open(self, r):
        """Indices of its ops that are not over."""
        return [n for n, op in enumerate(self.enqueued[r]) if not self.over(op, self.entered)]

    def local(self, r, group):
        return [g.name for g in self.groups if r in g.ranks].index(group.name)

    def dump(self, r, states=True, active=False, status=True):
        entries = [self.entry(r, op, n, states) for n, op in enumerate(self.enqueued[r])
                   if not (active and self.over(op, self.entered))]
        result = {
            "version": "2.9", "nccl_version": "2.26.2",
            "pg_config": {g.name: {"name": g.name, "desc": g.desc, "ranks": str(g.ranks)}
                          for g in self.groups},
            "entries": entries,
        }
        if status:
            result["pg_status"] = {}
            for g in self.groups:
                mine = [op for op in self.enqueued[r] if op["what"][1] is g]
                if mine:
                    number = lambda ops: max([op["seq"] or op["p2p_seq"] for op in ops], default=-1)
                    result["pg_status"][str(self.local(r, g))] = {
                        "last_enqueued_collective": number(mine), "last_started_collective": -1,
                        "last_completed_collective":
                            number([op for op in mine if self.over(op, self.entered)])}
        return result

    def write(self, directory, protocol=2, pattern="_dump_{}", skip=(), empty=(), **how):
        os.makedirs(directory, exist_ok=True)
        for r in range(self.world):
            if r in skip:
                continue
            dump = self.dump(r, **how)
            if r in empty:
                dump = {**dump, "entries": [], "pg_status": {}}
            path = os.path.join(directory, pattern.format(r))
            if protocol == "json":
                as_text = lambda d: {k: {i: str(j) for i, j in v.items()} for k, v in d.items()}
                if "pg_status" in dump:
                    dump["pg_status"] = as_text(dump["pg_status"])
                with open(path, "w") as file:
                    json.dump(dump, file)
            else:
                with open(path, "wb") as file:
                    pickle.dump(dump, file, protocol=protocol)
