# SPDX-License-Identifier: Apache-2.0
"""The verdicts of `lockstep run` on real jobs on NCCL: four ranks on one GPU, eight kinds of programs, healthy and with faults.

Each case of TABLE is one job of the programs in jobs/.  Jobs whose step times matter have the device for themselves, under MPS
with a quarter of it for each rank, while the next job imports torch (--beside N: N of them at a time, with that much less of the device
each); jobs that stop or crash run several at a time, each with an MPS server of its own.  The first verdict of each job is held against what was done to it: kind, ranks, layer, and the cost against the
step times that the program itself took with events of the device.

    python3 test/gpu/bench_gpu.py [--build build] [--part K/N] [--only NAME,...] [--seconds S] [--record DIR] [--json] [--list]

--part: the K-th of N parts, each a mixture of all cases.  --only: these, or those whose names begin so, in this order.  PROGRAM-plain is a
healthy job without lockstep: with PROGRAM-healthy beside it, it says what being observed costs.  --record keeps in DIR, for each job, the
run's log (NAME.lsf.gz), what was found (NAME.json), and for --rings NAME,... the ranks' rings (NAME.rings.tar.gz).  --again DIR judges the logs in
DIR by this version, without a GPU.  --seed draws other ranks and hosts for the faults: cases that nobody has seen.  --seconds: after which no
job is begun.  Exit status 1 if a bar is missed.
"""
import argparse
import concurrent.futures
import gzip
import hashlib
import json
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
JOBS = os.path.join(HERE, "jobs")
RANKS = 4

PROGRAMS = {
    "ddp": "ddp.py",
    "accumulate": "ddp.py --accumulate 3 --batch 8",
    "compiled": "ddp.py --compile",
    "graph": "ddp.py --graph",
    "tensor": "tensor.py",
    "pipeline": "pipeline.py",
    "sharded": "sharded.py",
    "experts": "experts.py",
}
STEPS, AT = 110, 50  # of jobs whose step times matter; --steps, --at
SHORT_AT = 25

# Fault of a job: its kind for job.py, kinds and layers of the right verdict, and how it is run.
FAULTS = {
    "device2": ("device:2.0", "straggler", "gpu", "timed"),
    "device13": ("device:1.3", "straggler", "gpu", "timed"),
    "sleep": ("sleep:25", "straggler", "user-code,cpu", "timed"),
    "loader": ("loader:30", "straggler,input-stall", "data,storage", "timed"),
    "gc": ("gc:1500000", "straggler", "user-code,cpu", "timed"),
    "share": ("mps:0.5", "straggler", "gpu", "timed"),
    "tokens": ("tokens:1.75", "imbalance", "*", "timed"),
    "nan": ("nan", "corruption", "*", "timed"),
    "stop": ("stop", "hang", "*", "stuck"),
    "gil": ("gil", "hang", "*", "stuck"),
    "kernel": ("kernel", "hang", "*", "endless"),
    "skip": ("skip", "desync,hang", "*", "stuck"),
    "shape": ("shape", "desync,hang", "*", "stuck"),
    "kill": ("kill", "crash", "*", "ends"),
    "raise": ("raise", "crash", "user-code", "ends"),
    "store": ("store", "crash", "user-code,unknown", "ends"),
    "memory": ("memory", "crash", "gpu-memory", "ends"),
}
# What a program cannot have: fixed shapes have no longer batches; nothing is read from the loss of a captured step before it ends.
NOT = {("graph", "tokens"), ("compiled", "tokens"), ("pipeline", "tokens"), ("graph", "nan")}


SEED = ""  # --seed


def digest(name):
    return int(hashlib.sha256((SEED + name).encode()).hexdigest()[:8], 16)


def pairs(rank):
    return [rank // 2 * 2, rank // 2 * 2 + 1]


def case(program, fault, ahead):
    name = "%s-%s%s" % (program, fault, "-ahead" if ahead else "")
    one = {"name": name, "program": program, "fault": fault, "ahead": ahead, "bad": digest(name) // 16 % RANKS}
    if (program, fault) == ("pipeline", "nan"):
        one["bad"] |= 2  # only the last stage has a loss
    if fault in ("healthy", "plain"):
        one.update(text="", kinds=["none"], layers=["*"], how="timed", ranks=[])
        return one
    text, kinds, layers, how = FAULTS[fault]
    ranks = [one["bad"]]
    if fault == "tokens" and program in ("tensor", "sharded"):
        ranks = pairs(one["bad"])  # both ranks of a replica have the same tokens
    one.update(text=text, kinds=kinds.split(","), layers=layers.split(","), how=how, ranks=ranks)
    return one


def table():
    cases = []
    for program in PROGRAMS:
        cases += [case(program, "healthy", ahead) for ahead in (False, True)]
        for fault in FAULTS:
            if (program, fault) not in NOT:
                cases.append(case(program, fault, digest(program + fault) % 2 == 1))
    return sorted(cases, key=lambda one: digest("order " + one["name"]))


TABLE = table()
PLAIN = [case(program, "plain", False) for program in PROGRAMS]


def chosen(only):
    """The cases of a list of names, each an exact one or a prefix, in the list's order."""
    cases = []
    for name in only.split(","):
        exact = [one for one in TABLE + PLAIN if one["name"] == name]
        cases += [one for one in exact or [one for one in TABLE if one["name"].startswith(name)] if one not in cases]
    return cases


def drawn(cases, count):
    """So many of them, each fault once before any comes twice, with a program that the seed chose."""
    times, order = {}, []
    for one in sorted(cases, key=lambda one: digest("draw " + one["name"])):
        times[one["fault"]] = times.get(one["fault"], 0) + 1
        order.append((times[one["fault"]], digest("draw " + one["name"]), one))
    return [one for _, _, one in sorted(order, key=lambda each: each[:2])][:count]


# ---- one job ----


class Mps:
    """A daemon of its own for a job; one that fails takes no other with it."""

    works = True

    def __init__(self, place, percent=25):
        self.percent = percent
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": os.path.join(place, "mps"),
                            "CUDA_MPS_LOG_DIRECTORY": os.path.join(place, "mps-log")}
        self.on = False
        if not Mps.works:
            return
        for path in self.environment.values():
            os.makedirs(path)
        try:
            done = subprocess.run(["nvidia-cuda-mps-control", "-d"], env=dict(os.environ, **self.environment), timeout=20,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.on = done.returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            pass
        if not self.on:
            Mps.works = False

    def rank_environment(self):
        return dict(self.environment, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(self.percent)) if self.on else {}

    def end(self):
        if not self.on:
            return
        environment = dict(os.environ, **self.environment)
        try:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit -t 3\n", text=True, env=environment, timeout=10,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            pass
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def left(self):
        """Processes of this daemon that are still there: they have its directory in their environment."""
        mark = ("CUDA_MPS_PIPE_DIRECTORY=" + self.environment["CUDA_MPS_PIPE_DIRECTORY"]).encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/comm" % pid) as file:
                    ours = file.read().startswith("nvidia-cuda-mps")
                with open("/proc/%s/environ" % pid, "rb") as file:
                    if ours and mark in file.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                continue
        return found


def why(options, environment, name):
    done = subprocess.run([os.path.join(options.build, "lockstep"), "why", "--json", name], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        return json.loads(done.stdout), done.returncode
    except ValueError:
        return {"error": (done.stderr or done.stdout)[-500:], "verdicts": []}, done.returncode


def interrupt(run):
    for number, limit_s in ((signal.SIGINT, 15), (signal.SIGKILL, 10)):
        try:
            if number == signal.SIGINT:
                run.send_signal(number)
            else:
                os.killpg(run.pid, number)
            return run.wait(limit_s)
        except subprocess.TimeoutExpired:
            continue
    return None


def wait_for(run, what, limit_s):
    end = time.monotonic() + limit_s
    while time.monotonic() < end and run.poll() is None:
        if what():
            return True
        time.sleep(0.1)  # looks again
    return what()


class Device:
    """Who may use the device: so many timed jobs at a time (--beside), others together."""

    lock = threading.Semaphore(1)
    mps = None  # of all timed jobs, where several run at a time


def program(options, one):
    words = PROGRAMS[one["program"]].split()
    if one["program"] == "sharded" and options.single:
        words.append("--single")
    words[0] = os.path.join(JOBS, words[0])
    # A fault of the share is there from the first step; ranks that end need only some steps before.
    steps, at = (STEPS, 0 if one["fault"] == "share" else AT) if one["how"] == "timed" else (STEPS, SHORT_AT)
    words += ["--steps", str(steps), "--at", str(at), "--bad", str(one["bad"])]
    words += ["--fault", one["text"]] if one["text"] else []
    return words + (["--ahead"] if one["ahead"] else []) + options.more.split()


def follow(options, environment, one, run):
    """Until the job ends or, when it stands, until it has a verdict; returns seconds to the first verdict."""
    begin, seen = time.monotonic(), None
    limit_s = options.limit if one["how"] in ("timed", "ends") else min(options.limit, options.stuck_limit)
    limit_s = max(10, min(limit_s, options.end - begin))
    while run.poll() is None and time.monotonic() - begin < limit_s:
        if one["how"] == "timed":
            time.sleep(0.2)  # looks again
            continue
        time.sleep(1)  # asks once a second, as a person might
        if seen is None and why(options, environment, one["name"])[0]["verdicts"]:
            seen = time.monotonic()
        if seen and one["how"] in ("stuck", "endless") and time.monotonic() - seen > 5:
            break
    status = run.poll()
    if status is None:
        status = interrupt(run)
    return status, round(seen - begin, 1) if seen else None, round(time.monotonic() - begin, 1)


def job(options, one, place):
    mps = Device.mps if Device.mps and one["how"] == "timed" else Mps(place)
    gate, state = os.path.join(place, "gate"), os.path.join(place, "state")
    os.makedirs(gate)
    environment = dict(os.environ, LOCKSTEP_STATE=state, LOCKSTEP_DEBUG="1", PYTHONUNBUFFERED="1", OMP_NUM_THREADS="1", JOB_GATE=gate, JOB_TIMES=place,
                       TORCHINDUCTOR_CACHE_DIR=options.cache, TRITON_CACHE_DIR=os.path.join(options.cache, "triton"),
                       **mps.rank_environment())
    command = [os.path.join(options.build, "lockstep"), "run", "-q", "-n", str(RANKS), "--max-restarts", "0", "--name", one["name"],
               "--", sys.executable] + program(options, one)
    if one["fault"] == "plain":
        command = [sys.executable, os.path.abspath(__file__), "--launch", place, "--"] + program(options, one)
    elif options.record and any(one["name"].startswith(name) for name in options.rings.split(",") if name):
        environment["JOB_RINGS"] = place
    output = open(os.path.join(place, "output"), "w+", errors="replace")
    run = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        ready = wait_for(run, lambda: all(os.path.exists(os.path.join(gate, "ready.%d" % rank)) for rank in range(RANKS)), 120)
        if one["how"] == "timed":
            with Device.lock:
                open(os.path.join(gate, "go"), "w").close()
                status, seen, seconds = follow(options, environment, one, run)
        else:
            open(os.path.join(gate, "go"), "w").close()
            status, seen, seconds = follow(options, environment, one, run)
    finally:
        if run.poll() is None:
            interrupt(run)
        if mps is not Device.mps:
            mps.end()
    answer, why_status = ({"verdicts": []}, 0) if one["fault"] == "plain" else why(options, environment, one["name"])
    output.seek(0)
    directory = os.path.join(state, "runs", one["name"]) if one["fault"] != "plain" else place
    found = {"case": one, "steps": STEPS, "at": AT, "ready": ready, "status": status, "why_status": why_status, "verdict_after_s": seen, "seconds": seconds,
             "mps": mps.on, "steps_ms": step_times(place), "rest": rest(place), "turns": read_json(os.path.join(place, "turns.json")), "answer": answer, "output": output.read()[-1000:],
             "began": [], "ranks_output": [], "complaints": []}
    for rank in range(RANKS):
        text = rank_output(directory, rank)
        found["began"].append("step 20 loss" in text)
        found["ranks_output"].append(text[-1500:])
        found["complaints"] += [line for line in text.splitlines() if line.startswith("lockstep: ")][:20]
    keep(options, one, found, os.path.join(directory, "log.lsf"))
    keep_rings(options, one, place)
    return found


def keep_rings(options, one, place):
    rings = [name for name in os.listdir(place) if name.endswith(".ring")]
    if options.record and rings:
        with tarfile.open(os.path.join(options.record, one["name"] + ".rings.tar.gz"), "w:gz", compresslevel=6) as tar:
            for name in sorted(rings):
                tar.add(os.path.join(place, name), name)


def launch(place, words):
    """The ranks of a job without lockstep."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    os.makedirs(os.path.join(place, "out"))
    ranks = []
    for rank in range(RANKS):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port))
        with open(os.path.join(place, "out", "rank-%d.log" % rank), "w") as output:
            ranks.append(subprocess.Popen([sys.executable] + words, env=environment, stdout=output, stderr=subprocess.STDOUT))
    return max(abs(rank.wait()) for rank in ranks)


def losses(found):
    """Of all ranks, to the bit: they must not depend on who watches."""
    return [one and one["losses"] for one in found["rest"]]


def rank_output(directory, rank):
    try:
        with open(os.path.join(directory, "out", "rank-%d.log" % rank), errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_json(path):
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def step_times(place):
    for rank in range(RANKS):
        times = read_json(os.path.join(place, "times.%d.json" % rank))
        if times:
            return times
    return []


def rest(place):
    """Of each rank: its losses, to the bit, and the memory it had resident now and then."""
    return [read_json(os.path.join(place, "rest.%d.json" % rank)) for rank in range(RANKS)]


def keep(options, one, found, log):
    found["log_bytes"] = 0
    if os.path.exists(log):
        with open(log, "rb") as file:
            packed = gzip.compress(file.read(), 9, mtime=0)
        found["log_bytes"] = len(packed)
        if options.record:
            with open(os.path.join(options.record, one["name"] + ".lsf.gz"), "wb") as file:
                file.write(packed)
    if options.record:
        with open(os.path.join(options.record, one["name"] + ".json"), "w") as file:
            json.dump(found, file)


# ---- what is right ----


def true_cost_ms(found, healthy):
    """What the fault adds to a step: mean after it less mean before; for a fault from the start, less the healthy twin's mean."""
    one, steps = found["case"], found["steps_ms"]
    if one["how"] != "timed" or one["fault"] in ("healthy", "plain", "nan") or len(steps) < STEPS - 5:
        return None
    if one["fault"] == "share":
        return statistics.fmean(steps[20:]) - healthy[one["program"]] if healthy.get(one["program"]) else None
    return statistics.fmean(steps[AT + 10:]) - statistics.fmean(steps[20:AT - 2])


def hidden(found, healthy):
    """A host that runs ahead may hide what delays it: then the fault costs nothing and no verdict is right."""
    one, true = found["case"], true_cost_ms(found, healthy)
    return one["ahead"] and one["fault"] in ("sleep", "loader", "gc") and true is not None and \
        true < 0.02 * statistics.fmean(found["steps_ms"][20:AT])


def grade(found, healthy):
    one, verdicts = found["case"], found["answer"].get("verdicts", [])
    row = {"name": one["name"], "program": one["program"], "fault": one["fault"], "ranks": one["ranks"], "kind": "", "named": [],
           "layer": "", "confidence": 0, "verdicts": len(verdicts), "claimed_ms": None, "true_ms": None,
           "step_ms": round(statistics.fmean(found["steps_ms"][20:AT]), 1) if len(found["steps_ms"]) > AT > 20 else None}
    row["ran"] = bool(found["steps_ms"]) if one["how"] == "timed" else all(found["began"])
    row["faults_ok"] = row["layer_ok"] = not verdicts and found["why_status"] in (0, 3)
    if one["fault"] not in ("healthy", "plain"):
        first = verdicts[0] if verdicts else {"kind": "silent", "ranks": [], "layer": "", "confidence": 0}
        row["faults_ok"] = first["kind"] in one["kinds"] and sorted(first["ranks"]) == one["ranks"]
        row["layer_ok"] = row["faults_ok"] and (one["layers"] == ["*"] or first["layer"] in one["layers"])
        if hidden(found, healthy) and not verdicts:
            row["faults_ok"] = row["layer_ok"] = True
    if verdicts:
        first = verdicts[0]
        row.update(kind=first["kind"], named=first["ranks"], layer=first["layer"], confidence=round(first["confidence"], 2))
        cost = (first.get("cost") or {}).get("seconds_per_step")
        row["claimed_ms"] = round(1e3 * cost, 1) if cost else None
    true = true_cost_ms(found, healthy)
    row["true_ms"] = round(true, 1) if true is not None else None
    row["cost_ok"] = None
    if true is not None and row["faults_ok"] and verdicts:
        row["cost_ok"] = row["claimed_ms"] is not None and abs(row["claimed_ms"] - true) <= 0.15 * true
    return row


def sums(rows):
    well = [row for row in rows if row["fault"] == "healthy"]
    sick = [row for row in rows if row["fault"] != "healthy"]
    plain = [row for row in rows if row["fault"] == "plain"]
    sick = [row for row in sick if row not in plain]
    priced = [row for row in sick if row["cost_ok"] is not None]
    return {"healthy": len(well), "healthy_silent": sum(row["faults_ok"] for row in well),
            "faults": len(sick), "kind_and_rank": sum(row["faults_ok"] for row in sick), "layer": sum(row["layer_ok"] for row in sick),
            "costs": len(priced), "cost_within_15_percent": sum(row["cost_ok"] for row in priced)}


def line(row):
    mark = "right" if row["layer_ok"] and row["cost_ok"] is not False else "layer" if not row["layer_ok"] and row["faults_ok"] else \
        "cost" if row["faults_ok"] else "WRONG"
    cost = "" if row["true_ms"] is None else " cost %s, true %.1f ms" % (row["claimed_ms"], row["true_ms"])
    return "%-26s %-6s %s %s %s %.2f (%d)%s%s%s" % (
        row["name"], mark, row["kind"] or "silent", row["named"], row["layer"], row["confidence"], row["verdicts"],
        "; right: ranks %s" % row["ranks"] if mark == "WRONG" and row["ranks"] else "", cost,
        "" if row["step_ms"] is None else "; step %.1f ms" % row["step_ms"])


def interval(right, count):
    """The share, and its 95 % interval by Wilson."""
    if not count:
        return "none ran"
    share, z = right / count, 1.96
    middle, half = share + z * z / 2 / count, z * math.sqrt(share * (1 - share) / count + z * z / 4 / count / count)
    return "%d of %d, %.2f (95 %%: %.2f to %.2f)" % (right, count, share, (middle - half) / (1 + z * z / count),
                                                    (middle + half) / (1 + z * z / count))


def final_table(rows, results):
    """Shares by fault and by program, and in all."""
    lines = []
    sick = [row for row in rows if row["ran"] and row["fault"] not in ("healthy", "plain")]
    well = [row for row in rows if row["ran"] and row["fault"] == "healthy"]
    for key in ("fault", "program"):
        for name in sorted({row[key] for row in sick}):
            those = [row for row in sick if row[key] == name]
            lines.append("%-8s %-12s kind and rank %d of %d, layer %d" % (
                key, name, sum(row["faults_ok"] for row in those), len(those), sum(row["layer_ok"] for row in those)))
    priced = [row for row in sick if row["cost_ok"] is not None]
    ledgers = [one["answer"].get("ledger") or {} for one in results if one["case"]["how"] == "timed" and one["case"]["fault"] != "plain"]
    steps, unfit = (sum(ledger.get(name, 0) for ledger in ledgers) for name in ("steps", "unfit_steps"))
    lines += ["healthy and silent: " + interval(sum(row["faults_ok"] for row in well), len(well)),
              "kind and rank:      " + interval(sum(row["faults_ok"] for row in sick), len(sick)),
              "layer:              " + interval(sum(row["layer_ok"] for row in sick), len(sick)),
              "cost within 15 %:   " + interval(sum(row["cost_ok"] for row in priced), len(priced)),
              "steps priced:       " + interval(steps - unfit, steps)]
    return lines


def observed(results):
    """Per program: the median step without and with lockstep, ms, and whether the losses were equal."""
    found = {(one["case"]["program"], one["case"]["fault"], one["case"]["ahead"]): one for one in results}
    rows = []
    for program in PROGRAMS:
        plain, ours = found.get((program, "plain", False)), found.get((program, "healthy", False))
        if plain and ours and len(plain["steps_ms"]) > 40 and len(ours["steps_ms"]) > 40:
            a, b = (statistics.median(one["steps_ms"][20:]) for one in (plain, ours))
            rows.append({"program": program, "plain_ms": round(a, 2), "ours_ms": round(b, 2), "more_percent": round(100 * (b / a - 1), 2),
                         "losses_equal": losses(plain) == losses(ours)})
    return rows


def healthy_steps(results):
    means = {}
    for found in results:
        if found["case"]["fault"] == "healthy" and len(found["steps_ms"]) > 40:
            means.setdefault(found["case"]["program"], statistics.fmean(found["steps_ms"][20:]))
    return means


def report(options, results, missing):
    healthy = healthy_steps(results)
    rows = [grade(found, healthy) for found in sorted(results, key=lambda found: found["case"]["name"])]
    total = sums([row for row in rows if row["ran"]])
    total.update(not_run=missing, failed=[row["name"] for row in rows if not row["ran"]])
    for row in rows:
        print(line(row), file=sys.stderr)
    print("\n".join(final_table(rows, results)), file=sys.stderr)
    costs = observed(results)
    for cost in costs:
        print("%(program)-12s step %(plain_ms).2f ms without, %(ours_ms).2f with: %(more_percent)+.2f %%; losses equal: %(losses_equal)s" % cost,
              file=sys.stderr)
    if options.json:
        print(json.dumps({"machine": options.machine, "sums": total, "costs": costs, "rows": rows}))
    good = total["kind_and_rank"] >= 0.95 * total["faults"] and total["layer"] >= 0.9 * total["faults"]
    return 0 if good and total["healthy_silent"] == total["healthy"] and not total["failed"] else 1


# ---- all of them ----


def machine():
    """Asked in a process of its own, which leaves no context on the device."""
    text = ("import json, torch; print(json.dumps({'torch': torch.__version__, 'device': torch.cuda.get_device_name(0),"
            " 'nccl': '.'.join(map(str, torch.cuda.nccl.version()))} if torch.cuda.is_available() else None))")
    done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.stdout.strip() else None


def run_all(options, cases):
    """Timed jobs first, one on the device and the next one loading; then those that stop or end; endless kernels last."""
    begin = time.monotonic()
    options.end = begin + options.seconds + 30  # of jobs that were begun in time
    hows = {one["how"] for one in cases}
    parts = {"timed": options.timed_share if len(hows) > 1 else 1, "stuck": 0.9 if "endless" in hows else 1}
    parts["ends"] = parts["stuck"]
    results, missing = [], []
    Device.lock = threading.Semaphore(options.beside)
    if options.beside > 1:
        Device.mps = Mps(os.path.join(options.place, "shared"), 100 // RANKS // options.beside)

    def one_job(one):
        # Of a short time each way to run has its part.
        if time.monotonic() > begin + options.seconds * parts.get(one["how"], 1):
            missing.append(one["name"])
            return
        place = tempfile.mkdtemp(prefix="job.", dir=options.place)
        try:
            found = job(options, one, place)
        except Exception as error:  # noqa: BLE001 - one job must not stop the others
            print("%s: %r" % (one["name"], error), file=sys.stderr, flush=True)
            missing.append(one["name"])
            return
        finally:
            shutil.rmtree(place, ignore_errors=True)
        results.append(found)
        print("%5.0f s  %s" % (time.monotonic() - begin, line(grade(found, {}))), file=sys.stderr, flush=True)
        if found["answer"].get("error") or not grade(found, {})["ran"] or options.verbose:
            print("  status %s; why: %s\n  %s" % (found["status"], found["answer"].get("error"), found["output"]), file=sys.stderr)
            for rank in range(RANKS):
                print("  rank %d: %s" % (rank, found["ranks_output"][rank][-700:].replace("\n", "\n  ")), file=sys.stderr, flush=True)

    for hows, workers in ((("timed",), options.beside + 1), (("stuck", "ends"), options.jobs), (("endless",), 1)):
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(one_job, [one for one in cases if one["how"] in hows]))
        if "timed" in hows and Device.mps:
            Device.mps.end()
    return results, missing


def judge_again(options):
    """The recorded logs, judged by this version."""
    results = []
    for name in sorted(os.listdir(options.again)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(options.again, name)) as file:
            found = json.load(file)
        globals().update(STEPS=found.get("steps", STEPS), AT=found.get("at", AT))
        with tempfile.TemporaryDirectory() as place:
            run = os.path.join(place, name[:-5])
            os.mkdir(run)
            with gzip.open(os.path.join(options.again, name[:-5] + ".lsf.gz")) as packed, open(os.path.join(run, "log.lsf"), "wb") as log:
                shutil.copyfileobj(packed, log)
            done = subprocess.run([os.path.join(options.build, "lockstep"), "why", "--again", "--json", run], stdout=subprocess.PIPE)
        found["answer"], found["why_status"] = json.loads(done.stdout), done.returncode
        results.append(found)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only", default="", help="names or prefixes of cases, with commas")
    parser.add_argument("--faults", default="", help="only these, with commas; -healthy and the like: all others (give it as --faults=-healthy)")
    parser.add_argument("--draw", type=int, default=0, help="so many of them, each fault before any twice")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one job on the device")
    parser.add_argument("--jobs", type=int, default=3, help="jobs that stop or end, at a time")
    parser.add_argument("--beside", type=int, default=1, help="timed jobs at a time")
    parser.add_argument("--seed", default="")
    parser.add_argument("--timed-share", type=float, default=0.65, help="of --seconds, for timed jobs")
    parser.add_argument("--stuck-limit", type=float, default=75, help="seconds for a job that stands")
    parser.add_argument("--single", action="store_true", help="sharded: without tensor parallelism")
    parser.add_argument("--more", default="", help="more options for the programs")
    parser.add_argument("--record")
    parser.add_argument("--rings", default="", help="names or prefixes of cases, with commas")
    parser.add_argument("--again")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--at", type=int, default=AT)
    parser.add_argument("--launch", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        return launch(options.launch, options.words)
    globals().update(STEPS=options.steps, AT=options.at, SEED=options.seed)
    globals().update(TABLE=table())
    options.build, options.machine = os.path.abspath(options.build), None
    part, parts = map(int, options.part.split("/"))
    cases = [one for number, one in enumerate(TABLE) if number % parts == part - 1]
    if options.only:
        cases = chosen(options.only)
    if options.faults:
        cases = [one for one in cases if (one["fault"] in options.faults.lstrip("-").split(",")) != (options.faults[0] == "-")]
    if options.draw:
        cases = drawn(cases, options.draw)
    if options.list:
        print("\n".join("%s %s rank %d" % (one["name"], one["how"], one["bad"]) for one in cases))
        return 0
    if options.again:
        return report(options, judge_again(options), [])
    if "--device cpu" not in options.more:
        options.machine = machine()
        if not options.machine:
            print("skipped: no GPU", file=sys.stderr)
            return 77
    if options.record:
        os.makedirs(options.record, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench_gpu.") as options.place:
        options.cache = os.path.join(options.place, "cache")
        results, missing = run_all(options, cases)
    if options.machine:
        options.machine["mps"] = Mps.works
    return report(options, results, missing)


if __name__ == "__main__":
    sys.exit(main())
