#!/usr/bin/env python3
"""What watching costs a PyTorch training: with and without lockstep, side by side, interleaved.

usage: bench/python_overhead.py [--json] [--pairs N] [--world N] [--quick]

Two jobs of the same ranks stand ready, one attached to lockstep, one not, and take turns: 20 steps
of one, 20 of the other.  A step is about 50 ms with 40 all-reduces (DistributedDataParallel on gloo),
part of it sleep, so that the processors are not the limit.  Told is the difference of neighbouring
turns, its median with a 95 % interval by bootstrap, of a step's wall time and of its CPU time.

Then the losses: bit by bit the same with and without, for 2, 3 and 4 ranks, with and without a
communication hook of the user's.  And what one event costs from Python, and how many a step has.

Exit: 0 within the bar (1 % of the step; losses equal), 1 not, 3 could not tell.
Needs torch; LOCKSTEP_PYTHON names another Python than this one.
"""
import argparse
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

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD") or os.path.join(SOURCE, "build")
COLLECTIVES, WIDTH, STEP_S, BAR = 40, 64, 0.050, 0.01


# ---- a rank ----

def rank_main():
    """Reads commands, one a line: "run STEPS SLEEP"; answers each with a line of JSON."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
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

    dist.init_process_group("gloo")
    torch.manual_seed(1)
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1  # each layer a bucket of its own
    layers = []
    for _ in range(COLLECTIVES):
        layers += [nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh()]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=1e-6)
    if "hook" in sys.argv:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = dist.get_rank() * 1000003
    batches = iter(DataLoader(Data(), batch_size=8, sampler=range(first, 1 << 30)))

    def step(sleep):
        batch = next(batches)
        loss = (model(batch) - batch).square().mean()
        time.sleep(sleep)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    for line in sys.stdin:
        word, *values = line.split()
        answer = {}
        if word == "run":
            dist.barrier()
            wall, cpu, losses = [], time.process_time(), []
            for _ in range(int(values[0])):
                begin = time.perf_counter()
                losses.append(step(float(values[1])).hex())
                wall.append(time.perf_counter() - begin)
            answer = {"wall": wall, "cpu": (time.process_time() - cpu) / len(wall), "losses": losses}
        elif word == "events":
            answer = event_costs()
        print(json.dumps(answer), flush=True)


def event_costs():
    """µs of each kind of event, as the hooks make them; in the ring of this rank, at its end."""
    from lockstep._probe import probe
    library, handle = probe.library, probe.handle
    if not handle:
        return {}
    comm = library.comm_add(handle, 0x6265, 1, 0, 0, b"bench")

    def collective():
        key = library.coll_enqueue_typed(handle, comm, 1, 4096, 0, 1)
        library.coll_start(handle, comm, key, 0)
        library.coll_end(handle, comm, key, 0)

    kinds = {
        "phase (begin and end)": lambda: (probe.phase_begin(11), probe.phase_end(11)),
        "collective (enqueue, start, end)": collective,
        "metric": lambda: probe.metric(1, 1.5),
        "an empty Python function": lambda: None,
    }
    costs = {}
    for name, call in kinds.items():
        best = math.inf
        for _ in range(7):
            begin = time.perf_counter()
            for _ in range(2000):
                call()
            best = min(best, (time.perf_counter() - begin) / 2000)
        costs[name] = best * 1e6
    return costs


# ---- jobs ----

class Job:
    """Ranks that wait for a word."""

    def __init__(self, python, world, attached, rings, words=()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
        env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(world))
        if attached:
            site = os.path.join(BUILD, "bindings", "python", "lockstep", "site")
            env.update(PYTHONPATH=site, LOCKSTEP_DIR=rings)
        self.ranks = [subprocess.Popen(
            [python, os.path.abspath(__file__), "--rank", *words], env=dict(env, RANK=str(rank)),
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


def median_wall(answers):
    return statistics.median(statistics.median(answer["wall"]) for answer in answers)


def mean_cpu(answers):
    return statistics.mean(answer["cpu"] for answer in answers)


def cost(python, world, pairs, steps, say):
    with tempfile.TemporaryDirectory(prefix="lockstep-bench.") as rings:
        plain, watched = Job(python, world, False, rings), Job(python, world, True, rings)
        try:
            for job in (plain, watched):
                job.ask("run 10 0.001")  # buckets settle, pages come in
            base = median_wall(plain.ask("run %d 0" % steps))
            sleep = max(0.001, STEP_S - base)
            wall, cpu, typical = [], [], []
            for pair in range(pairs):
                order = (plain, watched) if pair % 2 == 0 else (watched, plain)
                got = {job: job.ask("run %d %g" % (steps, sleep)) for job in order}
                typical.append(median_wall(got[plain]))
                wall.append(median_wall(got[watched]) - typical[-1])
                cpu.append(mean_cpu(got[watched]) - mean_cpu(got[plain]))
                say("pair %d of %d: %+.0f us a step, %+.0f us of CPU" % (
                    pair + 1, pairs, wall[-1] * 1e6, cpu[-1] * 1e6))
            kinds = events_per_step(rings)
            costs = watched.ask("events")[0]
        finally:
            plain.end()
            watched.end()
    step = statistics.median(typical)
    wall_us, cpu_us = ([1e6 * value if math.isfinite(value) else None for value in interval(values)]
                       for values in (wall, cpu))
    return {"world": world, "pairs": pairs, "steps": steps, "step_ms": step * 1e3,
            "wall_us": wall_us[0], "wall_us_95": wall_us[1:],
            "cpu_us": cpu_us[0], "cpu_us_95": cpu_us[1:],
            "events_a_step": sum(kinds.values()), "kinds": kinds, "event_us": costs}


def same_losses(python, world, hook, steps):
    words = ("hook",) if hook else ()
    losses = []
    with tempfile.TemporaryDirectory(prefix="lockstep-bench.") as rings:
        for attached in (False, True):
            job = Job(python, world, attached, rings, words)
            try:
                losses.append([answer["losses"] for answer in job.ask("run %d 0" % steps)])
            finally:
                job.end()
    return losses[0] == losses[1]


def verdict(one, same):
    """By wall time, and by CPU time, whose interval is narrower on a machine that does other things."""
    if not same:
        return "missed"
    bar_us = BAR * one["step_ms"] * 1e3
    known = [one[name] for name in ("wall_us_95", "cpu_us_95") if None not in one[name]]
    if any(low > bar_us for low, _ in known):
        return "missed"
    if any(high <= bar_us for _, high in known):
        return "met"
    return "could not tell: the interval is wider than that; try a machine that does nothing else"


def report(result):
    one = result["cost"]
    print("step %.1f ms with %d all-reduces, %d ranks; %d pairs of %d steps" % (
        one["step_ms"], COLLECTIVES, one["world"], one["pairs"], one["steps"]))
    for what, name in (("wall time", "wall_us"), ("CPU time", "cpu_us")):
        low, high = one[name + "_95"]
        print("  %-9s %+7.0f us a step, %+.2f %%; 95 %%: %s" % (
            what, one[name], one[name] / one["step_ms"] / 10,
            "too few turns" if low is None else "%+.0f to %+.0f us" % (low, high)))
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
    parser.add_argument("--pairs", type=int, default=20, help="turns of both jobs, default 20")
    parser.add_argument("--world", type=int, default=2, help="ranks of the timed jobs, default 2")
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

    pairs, steps = (2, 5) if given.quick else (given.pairs, 20)
    result = {"cost": cost(python, given.world, pairs, steps, say), "losses": []}
    for world in (2,) if given.quick else (2, 3, 4):
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
