# SPDX-License-Identifier: Apache-2.0
"""What `lockstep run` costs the jobs of jobs/ on a GPU: step time, losses, memory, and `import torch`.

    python3 test/gpu/cost_check.py [--build build] steps [--only PROGRAM,...] [--count N]
    python3 test/gpu/cost_check.py [--build build] losses | memory | import

steps: each program's ranks take all of lockstep off torch and put it on again in turns of some steps, in random order: both have the same
processes, sockets and memory, which two jobs have not.  Off is torch as it came: none of its functions is ours, NCCL tells the plugin
nothing, nothing is stamped.  Told is the mean difference of neighbouring turns to the mean step, with a 95 % interval by bootstrap.
losses: each program twice without lockstep and once with it, all of them computing only what gives the same bits each time; the losses of
all ranks and steps must be equal to the bit.
memory: a small model for thousands of steps, without lockstep and with it: what each rank and each of lockstep's processes has resident.
import: `import torch` without hooks and with them, in turns: the median of wall and CPU time.

Exit status 1 if a bar is missed: 1 %, equal, 8 MB, 0.1 s.  Nothing else should run on the machine for steps and import.
"""
import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import bench_gpu

BAR_PERCENT, BAR_BYTES, BAR_IMPORT_S = 1.0, 8 << 20, 0.1
SKIP = 2  # steps of a turn whose work began in the one before


def options_for(given, place, more, steps):
    bench_gpu.STEPS, bench_gpu.AT = steps, steps
    return argparse.Namespace(build=os.path.abspath(given.build), record=given.record, rings="", single=False, more=given.more + more, limit=300,
                              stuck_limit=75, cache=os.path.join(place, "cache"), end=time.monotonic() + 600, place=place)


def run(options, program, fault):
    place = tempfile.mkdtemp(prefix="job.", dir=options.place)
    one = bench_gpu.case(program, fault, False)
    found = bench_gpu.job(options, one, place)
    if not found["steps_ms"]:
        print("%s-%s did not run: status %s\n%s" % (program, fault, found["status"], "\n".join(found["ranks_output"])[-3000:]), file=sys.stderr)
    return found


# ---- steps ----


def differences(times, turns):
    """With less without, of the means of neighbouring turns, ms; and all steps without."""
    pairs, without = [], []
    for first in range(0, len(turns["order"]) - 1, 2):
        mean = {}
        for turn in (first, first + 1):
            begin = turns["warm"] + turn * turns["steps"]
            steps = times[begin + SKIP:begin + turns["steps"]]
            if len(steps) == turns["steps"] - SKIP:
                mean[turns["order"][turn]] = statistics.fmean(steps)
                without += [] if turns["order"][turn] else steps
        if len(mean) == 2:
            pairs.append(mean[True] - mean[False])
    return pairs, without


def bootstrap(values):
    chance = random.Random(1)
    means = sorted(statistics.fmean(chance.choices(values, k=len(values))) for _ in range(4000))
    return statistics.fmean(values), means[99], means[3899]


def check_steps(given, place):
    rows = []
    for program in given.only.split(",") if given.only else bench_gpu.PROGRAMS:
        options = options_for(given, place, " --turns 8", given.count or 350)
        found = run(options, program, "healthy")
        if not found["turns"] or not found["steps_ms"]:
            rows.append({"program": program, "ok": False})
            continue
        pairs, without = differences(found["steps_ms"], found["turns"])
        step = statistics.fmean(without)
        middle, low, high = (100 * value / step for value in bootstrap(pairs))
        rows.append({"program": program, "step_ms": round(step, 2), "turns": 2 * len(pairs), "percent": round(middle, 2), "low": round(low, 2),
                     "high": round(high, 2), "replaced": found["turns"]["replaced"], "ok": high <= BAR_PERCENT})
        print("%(program)-10s step %(step_ms).2f ms, %(turns)d turns, %(replaced)d functions of torch replaced: %(percent)+.2f %% "
              "(95 %%: %(low)+.2f to %(high)+.2f)" % rows[-1], file=sys.stderr, flush=True)
    return rows


# ---- losses ----


LOSSES = ("plain", "plain 2", "healthy")


def losses_row(program, first, second, ours):
    lists = [each for each in first if each]
    row = {"program": program, "losses": sum(map(len, lists)), "without_twice_equal": first == second, "ok": bool(lists) and ours == first}
    print("%(program)-10s %(losses)d losses; twice without lockstep equal: %(without_twice_equal)s, with it equal: %(ok)s" % row,
          file=sys.stderr, flush=True)
    return row


def check_losses(given, place):
    options, programs = options_for(given, place, "" if given.usual else " --exact", given.count or 40), given.only.split(",") if given.only else list(bench_gpu.PROGRAMS)
    found, jobs = {}, [(program, what) for program in programs for what in LOSSES]
    rows = []
    bench_gpu.Device.lock = threading.Semaphore(given.jobs)

    def work():
        while jobs:
            program, what = jobs.pop(0)
            begin = time.monotonic()
            found[program, what] = bench_gpu.losses(run(options, program, what.split()[0]))
            print("  %s %s: %.0f s" % (program, what, time.monotonic() - begin), file=sys.stderr, flush=True)
            if all((program, each) in found for each in LOSSES):
                rows.append(losses_row(program, *(found[program, each] for each in LOSSES)))

    workers = [threading.Thread(target=work) for _ in range(given.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return rows


# ---- memory ----


def resident(pid):
    try:
        with open("/proc/%d/statm" % pid) as file, open("/proc/%d/cmdline" % pid, "rb") as words:
            return " ".join(words.read().decode(errors="replace").split("\0")[:2]), int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError, ValueError):
        return None, 0


class Watch(threading.Thread):
    """What lockstep's own processes have resident, once a second."""

    def __init__(self, build):
        super().__init__(daemon=True)
        self.build, self.seen, self.over = build, {}, False

    def run(self):
        while not self.over:
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                words, size = resident(pid)
                if words and words.startswith(os.path.join(self.build, "lockstep")):
                    self.seen.setdefault((pid, words), []).append(size)
            time.sleep(1)  # looks again

    def growth(self):
        return {"%s (%d)" % (os.path.basename(words), pid): sizes[-1] - sizes[len(sizes) // 4]
                for (pid, words), sizes in self.seen.items() if len(sizes) >= 8}


def growth_of(found):
    """Most that a rank grew by, from a quarter of its steps to the end."""
    seen = [one["resident"] for one in found["rest"] if one]
    return max((sizes[-1] - sizes[len(sizes) // 4] for sizes in seen), default=None)


def check_memory(given, place):
    steps = given.count or 12000
    options = options_for(given, place, " --width 64 --layers 2 --inner 1 --batch 2 --length 32", steps)
    watch = Watch(options.build)
    watch.start()
    ours = run(options, given.only or "ddp", "healthy")
    watch.over = True
    plain = run(options, given.only or "ddp", "plain")
    growth, without = growth_of(ours), growth_of(plain)
    row = {"program": given.only or "ddp", "steps": steps, "seconds": ours["seconds"], "rank_bytes": growth, "rank_bytes_without": without,
           "processes": watch.growth(), "ok": growth is not None and without is not None and growth - max(without, 0) < BAR_BYTES}
    row["ok"] = row["ok"] and all(size < BAR_BYTES for size in row["processes"].values())
    print(json.dumps(row), file=sys.stderr, flush=True)
    return [row]


# ---- import ----


def import_torch(given, place, ours):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    if ours:
        environment.update(LOCKSTEP_DIR=place, LOCKSTEP_RUN="import", LOCKSTEP_RESTART="0", RANK="0", WORLD_SIZE="1",
                           PYTHONPATH=os.path.join(os.path.abspath(given.build), "bindings", "python", "lockstep", "site"))
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check_import(given, place):
    import_torch(given, place, True), import_torch(given, place, False)  # files are read
    pairs = []
    for _ in range(given.count or 7):
        ours, without = import_torch(given, place, True), import_torch(given, place, False)
        pairs.append([a - b for a, b in zip(ours, without)] + list(without))
    wall, cpu, base, base_cpu = (statistics.median(column) for column in zip(*pairs))
    row = {"program": "import torch", "pairs": len(pairs), "without_s": round(base, 3), "wall_s": round(wall, 3), "without_cpu_s": round(base_cpu, 3),
           "cpu_s": round(cpu, 3), "ok": min(wall, cpu) <= BAR_IMPORT_S}
    print("import torch takes %(without_s).2f s (%(without_cpu_s).2f s of CPU); with lockstep %(wall_s)+.3f s (CPU %(cpu_s)+.3f s), median of "
          "%(pairs)d pairs" % row, file=sys.stderr, flush=True)
    return [row]


CHECKS = {"steps": check_steps, "losses": check_losses, "memory": check_memory, "import": check_import}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("check", choices=list(CHECKS))
    parser.add_argument("--build", default=os.path.join(bench_gpu.SOURCE, "build"))
    parser.add_argument("--only", default="", help="names of programs, with commas")
    parser.add_argument("--count", type=int, default=0, help="steps, or pairs of imports")
    parser.add_argument("--jobs", type=int, default=3, help="jobs at a time, for losses")
    parser.add_argument("--usual", action="store_true", help="losses: as programs compute by default, which may differ from time to time")
    parser.add_argument("--more", default="", help="more options for the programs")
    parser.add_argument("--record", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cost_check.") as place:
        rows = CHECKS[given.check](given, place)
    if given.json:
        print(json.dumps(rows))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
