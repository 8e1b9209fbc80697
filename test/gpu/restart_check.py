# SPDX-License-Identifier: Apache-2.0
"""How soon a job on NCCL trains again after a rank was killed, hangs, or wrote where it must not: lockstep beside torchrun.

The same training, DistributedDataParallel on two ranks of one GPU, under `lockstep run` cold and warm and under torchrun at its best
setting.  Its ranks write down when they have come how far.  Jobs of which a rank is killed run one after the other, all others at the
same time.  Prints one JSON object: for each case the seconds after the fault, and the parts by lockstep's own
log; exits 1 when a job under lockstep did not train again, or when a process was left.  Without a GPU the ranks use gloo.
Needs torch and a build:

    python3 test/gpu/restart_check.py [--build build] [--faults killed,wild,hung] [--engines torchrun,cold,warm] [--limit 50]
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))

TRAIN = r"""
import os, sys, time
BEGUN = time.monotonic()
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Two ranks on one device: NCCL must take them for hosts of their own.
os.environ.update(NCCL_HOSTID="host%d" % rank, NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
import torch, torch.nn as nn, torch.distributed as dist
IMPORTED = time.monotonic()
here, fault, ready = sys.argv[1:4]
events = open(os.path.join(here, "events-%d-%d" % (attempt, rank)), "w", buffering=1)
def event(name, at=None):
    events.write("%s %.6f\n" % (name, time.monotonic() if at is None else at))
event("begun", BEGUN)
event("imported", IMPORTED)

WILD = b'''.version 7.0
.target sm_70
.address_size 64
.visible .entry wild() {
    .reg .b64 %a;
    .reg .b32 %v;
    mov.u64 %a, 16;
    mov.u32 %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
'''
def wild():
    import ctypes
    if not cuda:
        ctypes.memset(16, 0, 1)
    driver, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), WILD) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"wild") == 0
    event("fault")
    assert driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0

cuda = torch.cuda.is_available()
device = torch.device("cuda", 0) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", device_id=device)
else:
    dist.init_process_group("gloo")
event("group")
torch.manual_seed(1)
net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.GELU())]).to(device)
event("net")
model = nn.parallel.DistributedDataParallel(net)
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
event("init")
saved, first = os.path.join(here, "saved.pt"), 0
if os.path.exists(saved):
    state = torch.load(saved, map_location=device)
    net.load_state_dict(state["model"])
    first = state["step"]
event("loaded-%d" % first)
x = torch.randn(64, 1024, device=device)
for step in range(first, 100000 if attempt == 0 else first + 20):
    if attempt == 0 and rank == 1 and step >= 43 and (ready == "-" or os.path.exists(ready)):
        event("step-%d" % step)
        if fault == "wild" and cuda:
            wild()
        else:
            event("fault")
            if fault == "killed":
                os.kill(os.getpid(), 9)
            elif fault == "hung":
                os.kill(os.getpid(), 19)
            else:
                wild()
    loss = model(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    loss.item()
    if step == first:
        event("stepped")
    time.sleep(0.02)  # the rest of a step
    if rank == 0 and step % 5 == 4:
        torch.save({"model": net.state_dict(), "step": step + 1}, saved + ".new")
        os.replace(saved + ".new", saved)
event("ended")
dist.destroy_process_group()
"""


def command(build, engine, place, fault):
    script = os.path.join(place, "train.py")
    with open(script, "w") as file:
        file.write(TRAIN)
    tail = [script, place, fault]
    if engine == "torchrun":
        import torch
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max_restarts=1",
                 "--monitor_interval=0.1"]
        if torch.__version__.startswith("1."):  # with Python 3.11 it needs them
            words += ["-r", "2", "-t", "1"]
        return words + tail + ["-"]
    run = os.path.join(place, "run")
    words = [os.path.join(build, "lockstep"), "run", "-q", "--dir", run, "-n", "2", "--max-restarts", "1", "--grace", "2s",
             "--on-hang", "restart"]
    if engine == "warm":
        words.append("--warm")
    return words + ["--", sys.executable] + tail + [os.path.join(run, "warm.ready") if engine == "warm" else "-"]


def read_events(place, attempt):
    """By name: the newest time of all ranks, or the step behind it."""
    found, steps = {}, {}
    for rank in (0, 1):
        try:
            with open(os.path.join(place, "events-%d-%d" % (attempt, rank))) as file:
                lines = file.read().split("\n")
        except OSError:
            continue
        for line in lines:
            if " " not in line:
                continue
            name, at = line.split(" ")
            name, _, step = name.partition("-")
            found.setdefault(name, []).append(float(at))
            if step:
                steps[name] = int(step)
    return {name: max(at) for name, at in found.items()}, steps, len(found.get("stepped", []))


def left_running(place):
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if place.encode() in file.read() and int(pid) != os.getpid():
                    left.append(int(pid))
        except OSError:
            pass
    return left


def measure(place, engine, fault):
    before, steps, _ = read_events(place, 0)
    after, loaded, again = read_events(place, 1)
    case = {"case": fault, "engine": engine}
    if "fault" not in before:
        return dict(case, total_s=None, why="the fault was not reached: %s" % sorted(before))
    if again < 2:
        return dict(case, total_s=None, why="it did not train again: attempt 1 came to %s" % (sorted(after) or "nothing"))
    marks = [before["fault"]] + [after[name] for name in ("begun", "imported", "group", "net", "init", "loaded", "stepped")]
    names = ("until_start_s", "import_s", "group_s", "net_s", "model_s", "load_s", "first_step_s")
    case.update({name: round(b - a, 3) for name, a, b in zip(names, marks, marks[1:])})
    case.update(total_s=round(after["stepped"] - before["fault"], 3), lost_steps=steps["step"] - loaded["loaded"])
    return case


def run_case(build, engine, fault, limit_s):
    place = tempfile.mkdtemp(prefix="lockstep-restart-")
    # The standby of a job that lasts a minute may not take its time.
    env = dict(os.environ, PYTHONUNBUFFERED="1", LOCKSTEP_WARM_HURRY="1", LOCKSTEP_STATE=os.path.join(place, "state"),
               LOCKSTEP_DEBUG="1")
    out = os.path.join(place, "out")
    begin = time.monotonic()
    with open(out, "w") as file:
        job = subprocess.Popen(command(build, engine, place, fault), env=env, stdout=file, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        job.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        job.send_signal(signal.SIGTERM)
        try:
            job.wait(timeout=5)
        except subprocess.TimeoutExpired:
            job.kill()
    case = measure(place, engine, fault)
    case["seconds"], case["status"] = round(time.monotonic() - begin, 1), job.wait()
    if engine != "torchrun":
        why = subprocess.run([os.path.join(build, "lockstep"), "why", "--json", os.path.join(place, "run")], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            told = json.loads(why.stdout)
            case["parts"] = [one.get("parts") for one in told.get("restarts", [])]
            case["verdicts"] = [(one["kind"], one["ranks"], one.get("cause")) for one in told["verdicts"]]
        except (ValueError, KeyError) as error:
            case["parts"] = repr(error)
    time.sleep(0.5)  # what ends by itself after its parent has half a second to do so
    left = left_running(place)
    case["left_running"] = len(left)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if case["total_s"] is None or case["status"]:
        with open(out, errors="replace") as file:
            case["out"] = file.read()[-1500:]
        for rank in (0, 1):
            path = os.path.join(place, "run", "out", "rank-%d.log" % rank)
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    case["rank-%d" % rank] = file.read()[-1200:]
    shutil.rmtree(place, ignore_errors=True)
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=SOURCE if os.path.exists(os.path.join(SOURCE, "lockstep"))
                        else os.path.join(SOURCE, "build"))
    parser.add_argument("--faults", default="killed,wild,hung")
    parser.add_argument("--engines", default="torchrun,cold,warm")
    parser.add_argument("--limit", type=float, default=50, help="seconds for one job")
    parser.add_argument("--together", type=int, default=6, help="jobs at a time, but for those of which a rank is killed: they run alone")
    options = parser.parse_args()
    build, engines = os.path.abspath(options.build), options.engines.split(",")
    jobs = [(engine, fault) for fault in options.faults.split(",") for engine in engines]
    # torchrun knows nothing of a rank that stands still but NCCL's limit of ten minutes.
    jobs = [job for job in jobs if job != ("torchrun", "hung")]
    cases = []
    # The first import of a machine reads gigabytes from its disk.
    subprocess.run([sys.executable, "-c", "import torch; torch.cuda.is_available() and torch.ones(1, device='cuda')"], check=True)
    # Those that were killed alone: they are the ones that are compared.
    for part, together in (([job for job in jobs if job[1] == "killed"], 1),
                           ([job for job in jobs if job[1] != "killed"], options.together)):
        with concurrent.futures.ThreadPoolExecutor(together) as pool:
            for case in pool.map(lambda job: run_case(build, *job, options.limit), part):
                cases.append(case)
                print(json.dumps(case), file=sys.stderr, flush=True)
    total = {(case["engine"], case["case"]): case["total_s"] for case in cases}
    ratio = {fault: round(total["warm", fault] / total["torchrun", fault], 2) for fault in ("killed", "wild")
             if total.get(("warm", fault)) and total.get(("torchrun", fault))}
    print(json.dumps({"cases": cases, "warm_of_torchrun": ratio}, indent=1))
    bad = [case for case in cases if case["left_running"] and case["engine"] != "torchrun"
           or case["total_s"] is None and case["engine"] != "torchrun"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
