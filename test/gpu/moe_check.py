# SPDX-License-Identifier: Apache-2.0
"""What `lockstep run` says of a mixture of experts on NCCL: all-to-all of pairs, all-reduces of the other pairs.

Four ranks on one GPU.  Healthy, and with one fault of rank 1: stopped by a signal, a host that never returns, the GIL held, a
kernel that never ends, no memory left on the device, a wrong shape, a skipped collective.  Prints one JSON object: the answer
of `lockstep why` on each; exits 1 when a healthy job has a verdict, when a fault has none, or when the wrong rank is named.
Needs torch with CUDA, and a build:

    python3 test/gpu/moe_check.py [--build build] [--only healthy,stopped,host,gil,kernel,memory,shape,skipped]

The whole takes about six minutes.  Under MPS, with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25, the ranks do not take turns.
"""
import argparse
import json
import os
import sys
import tempfile
import time

import nccl_check

FAULTS = ("healthy", "stopped", "host", "gil", "kernel", "memory", "shape", "skipped")

TRAIN = r"""
import os, sys, time
rank = int(os.environ["RANK"])
os.environ.update(NCCL_HOSTID="host%d" % rank, NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
import datetime, torch, torch.nn as nn, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
fault, steps = os.environ["CHECK_FAULT"], int(os.environ["CHECK_STEPS"])
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=45))
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "ep"))
dp, ep = mesh.get_group("dp"), mesh.get_group("ep")
expert = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
opt = torch.optim.SGD(expert.parameters(), lr=1e-3)
x = torch.randn(1024, 512, device="cuda")
for step in range(steps):
    bad = fault if rank == 1 and step == 40 else ""
    if bad == "stopped":
        os.kill(os.getpid(), 19)
    if bad == "host":
        time.sleep(600)
    if bad == "gil":
        import ctypes
        ctypes.PyDLL(None).sleep(600)
    if bad == "kernel":
        torch.cuda._sleep(1 << 62)
    if bad == "memory":
        torch.empty(1 << 42, device="cuda")
    there, back = torch.empty_like(x), torch.empty_like(x)
    dist.all_to_all_single(there, x, group=ep)
    out = expert(there)
    dist.all_to_all_single(back, out.detach(), group=ep)
    loss = out.square().mean()
    loss.backward()
    for i, p in enumerate(expert.parameters()):
        if bad == "skipped" and i == 0:
            continue
        dist.all_reduce(p.grad[:1] if bad == "shape" and i == 0 else p.grad, group=dp)
    opt.step(); opt.zero_grad()
    loss.item()
    if step % 10 == 9:
        print("step", step + 1, flush=True)
dist.destroy_process_group()
"""


def right(fault, answer):
    """None: it is; else what is wrong."""
    verdicts = answer.get("verdicts")
    if not isinstance(verdicts, list):
        return "no answer"
    if fault == "healthy":
        if verdicts:
            return "a healthy job has a verdict"
        return None if answer["counts"]["untimed_steps"] else "steps without times are not listed"
    if len(verdicts) != 1:
        return "%d verdicts" % len(verdicts)
    verdict = verdicts[0]
    if fault == "memory":
        text = " ".join(line["what"] for line in verdict["because"])
        good = (verdict["kind"], verdict["layer"], verdict["ranks"]) == ("crash", "gpu-memory", [1])
        return None if good and "Tried to allocate" in text else "not the memory of rank 1's GPU"
    if verdict["kind"] not in (("hang", "desync") if fault in ("shape", "skipped") else ("hang",)):
        return "a %s" % verdict["kind"]
    # A device that never comes may only be known to be one of them.
    ranks = ([1], []) if fault == "kernel" else ([1], [1, 3]) if fault in ("shape", "skipped") else ([1],)
    return None if verdict["ranks"] in ranks else "ranks %s" % verdict["ranks"]


def check(build, fault):
    with tempfile.TemporaryDirectory() as place:
        begin = time.time()
        status, out, why = nccl_check.job(build, place, fault, 80, 75, TRAIN, 4)
        try:
            answer = json.loads(why)
        except ValueError:
            answer = {"why": why}
        return {"status": status, "seconds": round(time.time() - begin, 1), "out": out[-2500:], "answer": answer,
                "wrong": right(fault, answer)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(nccl_check.SOURCE, "build"))
    parser.add_argument("--only", default=",".join(FAULTS))
    options = parser.parse_args()
    result = {}
    for fault in options.only.split(","):
        result[fault] = one = check(os.path.abspath(options.build), fault)
        print("%s: %s" % (fault, "right" if not one["wrong"] else "WRONG: " + one["wrong"]), file=sys.stderr, flush=True)
    print(json.dumps(result, indent=1))
    return 0 if not any(one["wrong"] for one in result.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
