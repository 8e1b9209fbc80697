#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching costs a PyTorch training, told from turns with and without inside the same processes.

usage: bench/python_overhead.py [--json] [--pairs N] [--world N] [--nccl] [--quick]

The ranks of one job (DistributedDataParallel on gloo) have models alike: one made while lockstep's hooks are on
torch, two made while torch is as it came, and one whose reducer is given a group that passes buckets on and does
nothing else: torch's own way from its reducer into Python and back, the least that it would cost to watch there.  They
train in turns of 10 steps, in random order; between turns all hooks are put on or taken off again, on all ranks.  So all have
the same processes, sockets and processors, which two jobs have not.  For each round they are made anew, in another
order and elsewhere in memory: where a model happens to lie makes as much of a difference as what is measured.

A step is paced to 50 ms by sleep and has 40 all-reduces; how long it slept is not counted.  Told is the difference of
watched to unwatched turns of the same round, its median with a 95 % interval by bootstrap over rounds, of a step's wall
time and of its CPU time; the same of the floor; and that between the two unwatched, which is nothing: where its
interval is wider than the bar, this machine cannot tell.  What cannot be taken off is Python's audit hook, which hears
of uncaught exceptions: how often it is called in a step, and what a call costs, is told apart.

One rank by default: with two and more, each waits for the others, and what two processors do to that is more than
what is measured.

With --nccl the models are on GPUs and their buckets are NCCL's own affair: in watched turns it tells our plugin of them.
Two ranks then, as one alone moves nothing; they may share a GPU.

Then the losses (not with --nccl), of jobs with and without lockstep: bit by bit the same for 2, 3 and 4 ranks, with
and without a communication hook of the user's.  And what one event costs from Python, and how many a step has.

Exit: 0 the upper end of the wall time's interval is within the bar (1 % of the step) and losses are equal, 1 not,
3 could not tell.  Needs torch; LOCKSTEP_PYTHON names another Python than this one.
"""
import argparse
import functools
import gc
import json
import math
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import types

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD") or os.path.join(SOURCE, "build")
COLLECTIVES, WIDTH, STEP_S, BAR = 40, 64, 0.050, 0.01
TURN_STEPS = 10
SETTLE_STEPS = 6  # buckets settle
FLOOR = "floor"
WALL, CPU, PACE = range(3)
PACKAGE = os.path.join(BUILD, "bindings", "python")
BACKEND = "nccl" if "nccl" in sys.argv or "--nccl" in sys.argv else "gloo"  # of a rank; of who asks the ranks
DEVICE = "cuda" if BACKEND == "nccl" else "cpu"
TURNS = ("plain", "again", "watched") + (() if BACKEND == "nccl" else (FLOOR,))  # there nothing goes that way


# ---- a rank ----

def _is_ours(value):
    function = getattr(value, "__func__", value) if type(value) in (staticmethod, classmethod) else value
    where = function.__globals__ if type(function) is types.FunctionType else vars(type(function))
    return str(where.get("__name__", where.get("__module__"))).split(".")[0] == "lockstep"


class Switch:
    """Puts lockstep's hooks on torch and takes them off again: all that attaching replaced there."""

    def __init__(self):
        self.on = False
        self.changed = {}  # (object, name): (without, with)

    def learn(self, act):
        """Runs what puts hooks on, as it does in a program, and keeps what it replaced."""
        before = self._look()
        result = act()
        for place, (owner, value) in self._look().items():
            if _is_ours(value) and before[place][1] is not value:
                self.changed.setdefault(place, (owner, before[place][1], value))
        self.on = True
        return result

    @staticmethod
    def _look():
        seen = {}
        for module in [m for n, m in sys.modules.items() if n == "torch" or n.startswith("torch.")]:
            for name, value in list(vars(module).items()):
                seen[id(module), name] = module, value
                if issubclass(type(value), type) and str(value.__module__).startswith("torch"):
                    for inner, item in list(vars(value).items()):
                        seen[id(value), inner] = value, item
        return seen

    def turn(self, on):
        if on == self.on:
            return
        self.on = on
        for (_, name), (owner, without, with_) in self.changed.items():
            setattr(owner, name, with_ if on else without)
        if BACKEND == "nccl":
            from lockstep import _abi
            _abi.Library(os.environ["NCCL_PROFILER_PLUGIN"]).nccl_watch(int(on))
        from lockstep import _gloo, _pauses
        (_gloo.gloo.put_back if on else _gloo.gloo.take_off)()
        (gc.callbacks.append if on else gc.callbacks.remove)(_pauses._callback)


class Training:
    """A model of its own, its optimizer and its data."""

    def __init__(self, hook):
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, Dataset

        class Data(Dataset):
            def __len__(self):
                return 1 << 30

            def __getitem__(self, i):
                return torch.randn(WIDTH, generator=torch.Generator().manual_seed(i))

        torch.manual_seed(1)
        dist._DEFAULT_FIRST_BUCKET_BYTES = 1  # each layer a bucket of its own
        layers = []
        for _ in range(COLLECTIVES):
            layers += [nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh()]
        self.model = DistributedDataParallel(nn.Sequential(*layers).to(DEVICE), bucket_cap_mb=1e-6)
        if hook:
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
            self.model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        first = dist.get_rank() * 1000003
        self.batches = iter(DataLoader(Data(), batch_size=8, sampler=range(first, 1 << 30)))

    def step(self, sleep):
        """The loss, and how long it did sleep: that is the machine's affair, and not told as cost."""
        batch = next(self.batches).to(DEVICE)
        loss = (self.model(batch) - batch).square().mean()
        begin = time.perf_counter()
        if sleep > 0:
            time.sleep(sleep)
        slept = time.perf_counter() - begin
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), slept

    def run(self, steps, sleep):
        wall, pace, cpu, losses = [], [], time.process_time(), []
        for _ in range(steps):
            begin = time.perf_counter()
            loss, slept = self.step(sleep)
            pace.append(time.perf_counter() - begin)
            wall.append(pace[-1] - slept)
            losses.append(loss.hex())
        return {"wall": wall, "pace": pace, "cpu": (time.process_time() - cpu) / len(wall), "losses": losses}


def make_passing(base):
    """A group that hands on what a reducer asks for, below torch's ProcessGroup, whose methods are torch's own now."""
    allreduce = base.allreduce

    class Passing(base):
        def __init__(self, group):
            base.__init__(self, group.rank(), group.size())
            self.group, self.allreduce = group, functools.partial(allreduce, group)

        def getBackendName(self):
            return "passing on"

        def broadcast(self, *args):
            return self.group.broadcast(*args)

        def allgather(self, *args):
            return self.group.allgather(*args)

        def barrier(self, *args):
            return self.group.barrier(*args)

    return Passing


class Turns:
    """The same training, made anew for each round: without hooks, without them again, with them, and one that shows
    torch's way from its reducer into Python and back, with nothing of ours in between."""

    def __init__(self, dist):
        import torch.utils.data  # noqa: F401  what the program would have imported by then
        from torch.nn.parallel import DistributedDataParallel  # noqa: F401
        self.dist, self.switch, self.made, self.junk = dist, Switch(), {}, []
        self.switch.learn(self._attach)
        dist.init_process_group(BACKEND)
        self.switch.turn(False)
        Training(False)  # imports what it needs
        self.switch.turn(True)
        self.switch.learn(lambda: Training(False))  # the optimizer's class is hooked when one is made
        self.switch.turn(False)
        self.passing = make_passing(dist.ProcessGroup)

    @staticmethod
    def _attach():
        from lockstep import _attach
        _attach.attach()

    def make(self, seed):
        """In another order and elsewhere in memory each time: two models alike differ by where they happen to lie."""
        import torch
        chance = random.Random(seed)
        self.made.clear()
        gc.collect()
        self.junk = []
        for name in chance.sample(TURNS, len(TURNS)):
            self.junk += [torch.empty(chance.randrange(1, 1 << 16), dtype=torch.uint8) for _ in range(64)]
            self.turn(name)
            self.made[name] = self._floor() if name == FLOOR else Training(False)
        for name in chance.sample(TURNS, len(TURNS)):
            self.run(name, SETTLE_STEPS, 0)

    def _floor(self):
        held = []  # the reducer does not hold its group

        def make(*args, **kwargs):
            held.append(self.passing(args[3]))
            return original(*args[:3], held[0], *args[4:], **kwargs)

        original, self.dist.Reducer = self.dist.Reducer, make
        try:
            training = Training(False)
        finally:
            self.dist.Reducer = original
        training.held = held
        return training

    def turn(self, name):
        self.switch.turn(name == "watched")

    def run(self, name, steps, sleep):
        self.turn(name)
        self.dist.barrier()
        return self.made[name].run(steps, sleep)


def rank_main():
    """Reads commands, one a line: "make SEED", "run NAME STEPS SLEEP"; answers each with a line of JSON."""
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    if "both" in sys.argv:
        turns = Turns(dist)
    else:
        dist.init_process_group(BACKEND)
        alone = Training("hook" in sys.argv)
    for line in sys.stdin:
        word, *values = line.split()
        answer = {}
        if word == "alone":
            dist.barrier()
            answer = alone.run(int(values[0]), 0)
        elif word == "make":
            turns.make(int(values[0]))
        elif word == "run":
            answer = turns.run(values[0], int(values[1]), float(values[2]))
        elif word == "events":
            turns.turn("watched")
            answer = dict(event_costs(), **audit_costs(turns.made["plain"], turns.switch))
            answer["replaced"] = len(turns.switch.changed)
        print(json.dumps(answer), flush=True)


def event_costs():
    """µs of each kind of event, as the hooks make them; in the ring of this rank, at its end."""
    from lockstep._probe import probe
    library, handle = probe.library, probe.handle
    if not handle:
        return {}
    import torch
    import torch.distributed as dist
    from lockstep import _collectives
    comm = library.comm_add(handle, 0x6265, 1, 0, 0, b"bench")
    tensors, group = [torch.zeros(1024)], dist.group.WORLD
    launch = _collectives._launcher("allreduce", lambda group, tensors: None)

    def collective():
        key = library.coll_launch(handle, comm, 1, 4096, 0, 1)
        library.coll_end(handle, comm, key, 0)

    kinds = {
        "phase (begin and end)": lambda: (probe.phase_begin(11), probe.phase_end(11)),
        "collective (enqueue, start, end)": collective,
        "all that a hooked all-reduce adds": lambda: launch(group, 0, (tensors,), {}),
        "metric": lambda: probe.metric(1, 1.5),
        "an empty Python function": lambda: None,
    }
    return {name: cost_of(call) for name, call in kinds.items()}


def cost_of(call, times=2000):
    best = math.inf
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - begin) / times)
    return best * 1e6


def audit_costs(training, switch):
    """The hook that stays on in both turns: how often a step without our hooks calls it, and at what cost."""
    from lockstep import _failures
    count = [0, False]
    switch.turn(False)

    def counting(event, arguments):
        count[0] += count[1]

    sys.addaudithook(counting)
    training.step(0)
    count[1] = True
    training.step(0)
    count[1] = False
    return {"an audit event": cost_of(lambda: _failures._audit("object.__getattr__", ())),
            "audit events a step": count[0]}


# ---- jobs ----

class Job:
    """Ranks that wait for a word.  how: both (turns in one process), attached, plain."""

    def __init__(self, python, world, how, rings, words=()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("LOCKSTEP_") and name != "PYTHONPATH"}
        env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(world), OMP_NUM_THREADS="1")
        if how != "plain":
            env.update(LOCKSTEP_DIR=rings, PYTHONPATH=PACKAGE if how == "both" else os.path.join(
                PACKAGE, "lockstep", "site"))
        if BACKEND == "nccl":  # ranks that share a device must look like hosts of their own
            env.update(NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1",
                       NCCL_PROFILER_PLUGIN=os.path.join(BUILD, "liblockstep.so.0"))
        if how == "both":
            words = ("both",)
        self.ranks = [subprocess.Popen(
            [python, os.path.abspath(__file__), "--rank", BACKEND, *words], env=dict(env, RANK=str(rank), NCCL_HOSTID="host%d" % rank),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
            for rank in range(world)]

    def ask(self, text):
        for rank in self.ranks:
            rank.stdin.write(text + "\n")
            rank.stdin.flush()
        lines = [rank.stdout.readline() for rank in self.ranks]
        if not all(lines):
            raise SystemExit("bench/python_overhead.py: a rank ended: %r" % [r.poll() for r in self.ranks])
        return [json.loads(line) for line in lines]

    def end(self):
        for rank in self.ranks:
            rank.send_signal(signal.SIGKILL)
        for rank in self.ranks:
            rank.wait()


def interval(values, draws=4000):
    """Median, and its 95 % interval by bootstrap: a turn in which the machine did something else is one of many."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(draws))
    low, high = medians[int(0.025 * draws)], medians[int(0.975 * draws) - 1]
    if len(values) < 6:  # the interval of so few says nothing
        low, high = -math.inf, math.inf
    return statistics.median(values), low, high


def events_per_step(rings):
    """By kind, in one rank's newest whole step."""
    sys.path.insert(0, os.path.join(SOURCE, "test", "python"))
    from ring import rings as read
    ring = read(rings)[0]
    step = ring.steps()[-3]
    kinds = {}
    for event in ring.events:
        if event.step == step:
            kinds[event.kind] = kinds.get(event.kind, 0) + 1
    return kinds


def median_of(answers, what):
    return statistics.median(statistics.median(answer[what]) for answer in answers)


def mean_cpu(answers):
    return statistics.mean(answer["cpu"] for answer in answers)


def cost(python, world, pairs, steps, say):
    chance = random.Random(2)
    losses = {name: [] for name in TURNS}
    with tempfile.TemporaryDirectory(prefix="lockstep-bench.") as rings:
        job = Job(python, world, "both", rings)

        def turn(name, count, sleep):
            answers = job.ask("run %s %d %g" % (name, count, sleep))
            losses[name].append([answer["losses"] for answer in answers])
            return median_of(answers, "wall"), mean_cpu(answers), median_of(answers, "pace")

        try:
            sleep = STEP_S / 2
            job.ask("make 0")
            for _ in range(3):  # pages come in, and the sleep becomes what is left of the step
                for name in TURNS:
                    turn(name, 20, sleep)
                sleep = max(0.001, sleep + STEP_S - turn("plain", 20, sleep)[PACE])
            for name in TURNS:
                losses[name].clear()
            rounds = []
            for pair in range(pairs):
                job.ask("make %d" % (pair + 1))
                rounds.append({name: turn(name, steps, sleep) for name in chance.sample(TURNS, len(TURNS))})
                say("pair %d of %d: %+.0f us a step, %+.0f us of CPU" % (
                    pair + 1, pairs, *(difference(rounds[-1:], "watched", which)[0] * 1e6 for which in (WALL, CPU))))
            kinds = events_per_step(rings)
            costs = job.ask("events")[0]
        finally:
            job.end()
    step = statistics.median(one["plain"][PACE] for one in rounds)
    result = {"backend": BACKEND, "world": world, "pairs": pairs, "steps": steps, "step_ms": step * 1e3}
    for what, name, which in (("wall_us", "watched", WALL), ("cpu_us", "watched", CPU),
                              ("floor_wall_us", FLOOR, WALL), ("floor_cpu_us", FLOOR, CPU),
                              ("same_wall_us", "again", WALL), ("same_cpu_us", "again", CPU)):
        if name not in TURNS:
            continue
        median, *ends = (1e6 * value if math.isfinite(value) else None
                         for value in interval(difference(rounds, name, which)))
        result.update({what: median, what + "_95": ends})
    return {**result, "losses_equal": all(one == losses["plain"] for one in losses.values()),
            "replaced": costs.pop("replaced"), "audit_events_a_step": costs.pop("audit events a step"),
            "events_a_step": sum(kinds.values()), "kinds": kinds, "event_us": costs}


def difference(rounds, name, which):
    """To unwatched turns of the same round: what is watched to the mean of both, one of them to the other."""
    if name == "again":
        return [one["again"][which] - one["plain"][which] for one in rounds]
    return [one[name][which] - (one["again"][which] + one["plain"][which]) / 2 for one in rounds]


def same_losses(python, world, hook, steps):
    words = ("hook",) if hook else ()
    losses = []
    with tempfile.TemporaryDirectory(prefix="lockstep-bench.") as rings:
        for how in ("plain", "attached"):
            job = Job(python, world, how, rings, words)
            try:
                losses.append([answer["losses"] for answer in job.ask("alone %d" % steps)])
            finally:
                job.end()
    return losses[0] == losses[1]


def verdict(one, same):
    if not same or not one["losses_equal"]:
        return "missed"
    low, high = one["wall_us_95"]
    least, most = one["same_wall_us_95"]
    bar_us = BAR * one["step_ms"] * 1e3
    sure = low is not None and -bar_us < least and most < bar_us
    if sure and high <= bar_us:
        return "met"
    if sure and low > bar_us:
        return "missed"
    return "could not tell: the interval is wider than that; try a machine that does nothing else"


def report(result):
    one = result["cost"]
    print("step %.1f ms with %d all-reduces on %s, %d ranks; %d rounds of turns of %d steps" % (
        one["step_ms"], COLLECTIVES, BACKEND, one["world"], one["pairs"], one["steps"]))
    for what, name in (("wall time", "wall_us"), ("CPU time", "cpu_us"),
                       ("wall time of torch's way alone", "floor_wall_us"),
                       ("CPU time of torch's way alone", "floor_cpu_us"),
                       ("wall time of the unwatched twice", "same_wall_us"),
                       ("CPU time of the unwatched twice", "same_cpu_us")):
        if name not in one:
            continue
        low, high = one[name + "_95"]
        print("  %-32s %+7.0f us a step, %+.2f %%; 95 %%: %s" % (
            what, one[name], one[name] / one["step_ms"] / 10,
            "too few turns" if low is None else "%+.0f to %+.0f us" % (low, high)))
    print("  losses of the two: %s" % ("the same bits" if one["losses_equal"] else "DIFFER"))
    print("  %d functions of torch are ours in one and torch's own in the other" % one["replaced"])
    print("  %d calls a step of the audit hook, which is on in both" % one["audit_events_a_step"])
    print("  %d events a step: %s" % (one["events_a_step"], ", ".join(
        "%d %s" % (count, kind) for kind, count in sorted(one["kinds"].items()))))
    for name, cost_us in one["event_us"].items():
        print("  %6.2f us  %s" % (cost_us, name))
    for case in result["losses"]:
        print("losses of %d ranks%s: %s" % (case["world"], ", user's hook" if case["hook"] else "",
                                            "the same bits" if case["same"] else "DIFFER"))
    print("bar, %.0f %% of the step: %s" % (100 * BAR, result["bar"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--pairs", type=int, default=50, help="rounds of turns, default 50")
    parser.add_argument("--world", type=int, help="ranks of the timed job, default 1, with --nccl 2")
    parser.add_argument("--nccl", action="store_true", help="on GPUs, where NCCL tells a plugin of ours of buckets")
    parser.add_argument("--quick", action="store_true", help="few steps, losses of 2 ranks only")
    given = parser.parse_args()
    python = os.environ.get("LOCKSTEP_PYTHON") or sys.executable
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        print("bench/python_overhead.py: %s has no torch; apt install python3-torch" % python,
              file=sys.stderr)
        return 3

    def say(text):
        if sys.stderr.isatty():
            print("\r\033[K" + text, end="", file=sys.stderr, flush=True)

    pairs, steps = (2, 5) if given.quick else (given.pairs, TURN_STEPS)
    result = {"cost": cost(python, given.world or (2 if given.nccl else 1), pairs, steps, say), "losses": []}
    for world in () if given.nccl else (2,) if given.quick else (2, 3, 4):
        for hook in (False, True):
            say("losses of %d ranks" % world)
            result["losses"].append({"world": world, "hook": hook,
                                     "same": same_losses(python, world, hook, steps)})
    say("")
    result["bar"] = verdict(result["cost"], all(case["same"] for case in result["losses"]))
    if given.json:
        print(json.dumps(result, indent=2))
    else:
        report(result)
    return {"met": 0, "missed": 1}.get(result["bar"], 3)


if __name__ == "__main__":
    if "--rank" in sys.argv:
        rank_main()
    else:
        sys.exit(main())
