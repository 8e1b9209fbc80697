# SPDX-License-Identifier: Apache-2.0
"""What newer PyTorch features do under lockstep's hooks, on a machine with a GPU.

Runs each program below twice in processes of its own, without and with lockstep attached, and compares
the losses bit by bit; then reads the rings that the attached one left.  Prints one JSON object; exits
1 when something differs.  Needs torch with CUDA and a built liblockstep.so:

    python3 test/gpu/torch_check.py [--lib build/liblockstep.so.0]
"""
import argparse
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(SOURCE, "test", "python"))

import ring  # noqa: E402

COMMON = r"""
import os, sys, torch
import torch.nn as nn, torch.nn.functional as F
torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", 0)
torch.cuda.set_device(0)
steps = 12
def net():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 16)).to(device)
def batch(i):
    g = torch.Generator(device="cpu").manual_seed(1000 * i + rank)
    return torch.randn(64, 256, generator=g).to(device), torch.randint(0, 16, (64,), generator=g).to(device)
def said(values):
    if rank == 0:
        print("LOSSES " + " ".join(float(v).hex() for v in values))
def group():
    import torch.distributed as dist
    dist.init_process_group("nccl", device_id=device)
    return dist
"""

PROGRAMS = {
    "plain": (1, r"""
model = net(); opt = torch.optim.AdamW(model.parameters(), lr=1e-3); out = []
for i in range(steps):
    x, y = batch(i); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); opt.zero_grad(); out.append(loss.detach())
said(out)
"""),
    "amp": (1, r"""
model = net(); opt = torch.optim.SGD(model.parameters(), lr=1e-2); scaler = torch.amp.GradScaler("cuda"); out = []
for i in range(steps):
    x, y = batch(i)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); opt.zero_grad(); out.append(loss.detach())
said(out)
"""),
    "compile": (1, r"""
model = net(); opt = torch.optim.AdamW(model.parameters(), lr=1e-3); fast = torch.compile(model); out = []
for i in range(steps):
    x, y = batch(i); loss = F.cross_entropy(fast(x), y); loss.backward(); opt.step(); opt.zero_grad(); out.append(loss.detach())
said(out)
"""),
    "compiled-step": (1, r"""
model = net(); opt = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True); out = []
@torch.compile
def train(x, y):
    loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); opt.zero_grad(); return loss.detach()
for i in range(steps):
    out.append(train(*batch(i)).clone())
said(out)
"""),
    "cuda-graph": (1, r"""
model = net(); opt = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True); out = []
x, y = batch(0); sx, sy = x.clone(), y.clone()
side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        opt.zero_grad(set_to_none=True); F.cross_entropy(model(sx), sy).backward(); opt.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph(); opt.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = F.cross_entropy(model(sx), sy); loss.backward(); opt.step()
for i in range(steps):
    x, y = batch(i); sx.copy_(x); sy.copy_(y); graph.replay(); out.append(loss.detach().clone())
said(out)
"""),
    "ddp": (2, r"""
dist = group(); model = nn.parallel.DistributedDataParallel(net()); opt = torch.optim.AdamW(model.parameters(), lr=1e-3); out = []
for i in range(steps):
    x, y = batch(i); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); opt.zero_grad()
    total = loss.detach().clone(); dist.all_reduce(total); out.append(total)
said(out); dist.destroy_process_group()
"""),
    "ddp-compile": (2, r"""
dist = group(); model = torch.compile(nn.parallel.DistributedDataParallel(net())); opt = torch.optim.AdamW(model.parameters(), lr=1e-3); out = []
for i in range(steps):
    x, y = batch(i); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); opt.zero_grad(); out.append(loss.detach())
said(out); dist.destroy_process_group()
"""),
    "fsdp2": (2, r"""
from torch.distributed.fsdp import fully_shard
dist = group(); model = net()
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer)
fully_shard(model); opt = torch.optim.AdamW(model.parameters(), lr=1e-3); out = []
for i in range(steps):
    x, y = batch(i); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); opt.zero_grad(); out.append(loss.detach())
said(out); dist.destroy_process_group()
"""),
    "collectives": (2, r"""
dist = group(); out = []
part = dist.new_group([0, 1], backend="nccl")
for i in range(steps):
    x = torch.full((1 << 16,), float(rank + i), device=device); y = torch.empty(2 << 16, device=device)
    dist.all_gather_into_tensor(y, x); z = torch.empty_like(x); dist.reduce_scatter_tensor(z, y, group=part)
    dist.broadcast(z, 0); dist.reduce(z, 1); w = torch.empty_like(y); dist.all_to_all_single(w, y)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, z, 1 - rank)]):
        work.wait()
    dist.barrier(); out.append((w.sum() + z.sum()).detach())
said(out); dist.destroy_process_group()
"""),
    "captured": (2, r"""
dist = group(); out = []; x = torch.ones(1 << 14, device=device) * (rank + 1); dist.all_reduce(x); torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    dist.all_reduce(x); x.mul_(0.5)
for i in range(steps):
    graph.replay(); out.append(x.sum().clone())
torch.cuda.synchronize(); said(out); del graph; dist.destroy_process_group()
"""),
    "dcp": (2, r"""
import tempfile, torch.distributed.checkpoint as dcp
dist = group(); model = net(); opt = torch.optim.AdamW(model.parameters(), lr=1e-3); out = []
for i in range(steps):
    x, y = batch(i); loss = F.cross_entropy(model(x), y); loss.backward(); opt.step(); opt.zero_grad(); out.append(loss.detach())
where = os.environ["CHECK_DIR"]
dcp.save({"model": model.state_dict()}, checkpoint_id=where)
said(out); dist.destroy_process_group()
"""),
}


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def run(name, world, text, where, attach, lib):
    script = os.path.join(where, name + ".py")
    with open(script, "w") as file:
        file.write(COMMON + text)
    port, ranks = free_port(), []
    for rank in range(world):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), CUBLAS_WORKSPACE_CONFIG=":4096:8",
                   CHECK_DIR=os.path.join(where, "dcp"),
                   # Several ranks on one device: NCCL must take them for hosts of their own.
                   NCCL_HOSTID="host%d" % rank, NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
        if attach:
            env.update(LOCKSTEP_DIR=where, LOCKSTEP_RUN=name, LOCKSTEP_LIB=lib, LOCKSTEP_DEBUG="1",
                       NCCL_PROFILER_PLUGIN=lib,
                       PYTHONPATH=os.path.join(SOURCE, "bindings", "python", "lockstep", "site"))
        ranks.append(subprocess.Popen([sys.executable, script], env=env, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True))
    out, err, status = "", "", 0
    for process in ranks:
        try:
            one, words = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            for other in ranks:
                other.kill()
            one, words = process.communicate()
        out, err = out + one, err + words
        status = status or process.returncode
    losses = [line for line in out.splitlines() if line.startswith("LOSSES ")]
    said = [line for line in err.splitlines() if "lockstep" in line]
    return {"status": status, "losses": losses[0] if losses else None,
            "said": said[:5], "error": err[-600:] if status else ""}


def ring_counts(path):
    """What was recorded: events by kind, phases by name."""
    found = ring.Ring(path)
    kinds = Counter(event.kind for event in found.events)
    phases = Counter(event.detail for event in found.events if event.kind == "phase_begin")
    return {"rank": found.rank, "steps": kinds["step_begin"], "phases": dict(phases),
            "collectives": kinds["coll_enqueue"], "notes": kinds["note"], "lost": found.lost,
            "ops": [op_counts(found, place, comm) for place, comm in enumerate(found.comms) if comm],
            "how": sorted(set(found.how())), "lanes": [found.lanes_used, found.dropped]}


def op_counts(found, place, comm):
    """Of one communicator: what was launched, and what of that was seen to begin and end, in order."""
    ops = [op for op in found.ops() + found.messages() if op.comm == place]
    whole = [op for op in ops if op.start and op.end]
    spent = sorted((op.end - op.start) // 1000 for op in whole)
    return {"name": comm.name, "size": comm.size, "index": comm.index, "kinds": dict(Counter(op.op for op in ops)),
            "launched": len(ops), "whole": len(whole),
            "in_order": all(op.enqueue <= op.start <= op.end for op in whole),
            "us": [spent[0], spent[len(spent) // 2], spent[-1]] if spent else None}


def check(name, lib):
    world, text = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as ours:
        without, attached = run(name, world, text, plain, False, lib), run(name, world, text, ours, True, lib)
        rings = sorted(glob.glob(os.path.join(ours, "*.ring")))
        return {"world": world, "status": [without["status"], attached["status"]],
                "ran": without["status"] == 0 and without["losses"] is not None,
                "same": without["status"] == attached["status"] and without["losses"] == attached["losses"],
                "rings": [ring_counts(path) for path in rings],
                "said": attached["said"], "error": attached["error"] or without["error"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", default=os.path.join(SOURCE, "build", "liblockstep.so.0"))
    parser.add_argument("--only", default="", help="names of programs, with commas")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        print("skipped: no GPU", file=sys.stderr)
        return 77
    names = options.only.split(",") if options.only else list(PROGRAMS)
    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name(0), "nccl": list(torch.cuda.nccl.version()),
              "programs": {}}
    for name in names:
        result["programs"][name] = check(name, os.path.abspath(options.lib))
        print("%s: %s" % (name, json.dumps(result["programs"][name])), file=sys.stderr, flush=True)
    print(json.dumps(result, indent=2))
    return 0 if all(one["same"] and one["ran"] for one in result["programs"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
