# SPDX-License-Identifier: Apache-2.0
"""What `lockstep run` says of jobs on NCCL, with several ranks on one GPU.

Runs a DistributedDataParallel training on NCCL under `lockstep run`, which reads its loss in every step: healthy, with a
rank whose device has more to do, one whose host sleeps, one that is stopped, one that fails and is begun again with
fewer channels; and ones that never wait for their device, healthy and with such a slow rank (ahead, ahead-slow).
Prints one JSON object: the verdicts of each; exits 1 when a healthy job has a verdict, or another not the right one.
Needs torch with CUDA, and a build:

    python3 test/gpu/nccl_check.py [--build build] [--only healthy,slow,sleeps,stopped,channels,ahead,ahead-slow]
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))

TRAIN = r"""
import os, sys, time
rank = int(os.environ["RANK"])
# Several ranks on one device: NCCL must take them for hosts of their own.
os.environ.update(NCCL_HOSTID="host%d" % rank, NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
if os.environ["CHECK_FAULT"] == "channels":
    count = "1" if os.environ["LOCKSTEP_RESTART"] == "1" else "8"
    os.environ.update(NCCL_MIN_NCHANNELS=count, NCCL_MAX_NCHANNELS=count)
import torch, torch.nn as nn, torch.distributed as dist
fault, steps = os.environ["CHECK_FAULT"], int(os.environ["CHECK_STEPS"])
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
layers = []
for _ in range(8):
    layers += [nn.Linear(1024, 1024), nn.GELU()]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).cuda(), bucket_cap_mb=8)
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(256, 1024, device="cuda"); big = torch.randn(4096, 4096, device="cuda")
for step in range(steps):
    if fault.endswith("slow") and rank == 1 and step >= 30:
        for _ in range(60):
            big @ big
    if fault == "sleeps" and rank == 1 and step >= 30:
        time.sleep(0.05)  # the fault
    if fault == "channels" and rank == 1 and step == 60 and os.environ["LOCKSTEP_RESTART"] == "0":
        raise RuntimeError("a fault")
    if fault == "stopped" and rank == 1 and step == 30:
        os.kill(os.getpid(), 19)
    loss = model(x).square().mean()
    loss.backward()
    opt.step(); opt.zero_grad()
    if not fault.startswith("ahead"):
        loss.item()
    if step % 10 == 9:
        print("step", step + 1, "loss", loss.item(), flush=True)
dist.destroy_process_group()
"""


def job(build, place, fault, steps, limit_s, train=TRAIN, ranks=2):
    script = os.path.join(place, "train.py")
    with open(script, "w") as file:
        file.write(train)
    env = dict(os.environ, CHECK_FAULT=fault, CHECK_STEPS=str(steps), LOCKSTEP_STATE=os.path.join(place, "state"),
               LOCKSTEP_DEBUG="1", PYTHONUNBUFFERED="1")
    lockstep = os.path.join(build, "lockstep")
    restarts = "1" if fault == "channels" else "0"
    run = subprocess.Popen([lockstep, "run", "-n", str(ranks), "--max-restarts", restarts, "--", sys.executable, script], env=env,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        out, _ = run.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGINT)
        try:
            out, _ = run.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            out, _ = run.communicate()
    said = subprocess.run([lockstep, "why", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return run.returncode, out, said.stdout or said.stderr


def check(build, fault, steps, limit_s):
    with tempfile.TemporaryDirectory() as place:
        begin = time.time()
        status, out, why = job(build, place, fault, steps, limit_s)
        try:
            verdicts = json.loads(why)["verdicts"]
        except ValueError:
            verdicts = why
        return {"status": status, "seconds": round(time.time() - begin, 1), "out": out[-2500:], "verdicts": verdicts}


def right(fault, verdicts):
    if fault in ("healthy", "ahead"):
        return verdicts == []
    if fault == "channels":
        return any(v["kind"] == "sync-stall" and v["cause"] == "fewer channels than before the restart: 1, were 8"
                   for v in verdicts)
    kind = "hang" if fault == "stopped" else "straggler"
    return [(v["kind"], v["ranks"]) for v in verdicts] == [(kind, [1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--only", default="healthy,slow,sleeps,stopped,channels,ahead,ahead-slow")
    options = parser.parse_args()
    result = {}
    for fault in options.only.split(","):
        one = check(os.path.abspath(options.build), fault, 120, 60 if fault == "stopped" else 150)
        one["right"] = isinstance(one["verdicts"], list) and right(fault, one["verdicts"])
        result[fault] = one
        print("%s: %s" % (fault, "right" if one["right"] else "NOT RIGHT " + json.dumps(one)), file=sys.stderr, flush=True)
    print(json.dumps(result, indent=1))
    return 0 if all(one["right"] for one in result.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
