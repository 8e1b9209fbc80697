# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint over lockstep's storage: what DCP saves it loads, also on another number of ranks."""
import os
import socket
import subprocess
import sys

from tap import BUILD, LOCKSTEP, PACKAGE, PYTHON, Skip, equal, main, need_torch, python, test

ENV = {"LOCKSTEP_CKPT_LIBRARY": os.path.join(BUILD, "liblockstep-ckpt.so.0"), "OMP_NUM_THREADS": "1", "USE_LIBUV": "0"}
BEGIN = """
import os, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import lockstep
from lockstep.checkpoint.dcp import StorageReader, StorageWriter
directory = sys.argv[1]
"""
RANKS = BEGIN + """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
def state(scale):
    make = lambda *shape: torch.arange(float(torch.Size(shape).numel())).reshape(shape) * scale
    return {"rows": distribute_tensor(make(7, 4), mesh, [Shard(0)]), "columns": distribute_tensor(make(3, 10), mesh, [Shard(1)]),
            "same": distribute_tensor(make(5), mesh, [Replicate()]), "plain": make(4) + 1, "deep": {"list": [make(2), "text", 7 * scale]}}
if sys.argv[2] == "save":
    writer = StorageWriter(directory)
    for step in 3, 4:
        dcp.save(state(step), checkpoint_id=step, storage_writer=writer)
else:
    loaded = state(0)
    dcp.load(loaded, storage_reader=StorageReader(directory))
    for name in "rows", "columns", "same":
        assert torch.equal(loaded[name].full_tensor(), state(4)[name].full_tensor()), (rank, name, loaded[name])
    assert torch.equal(loaded["plain"], state(4)["plain"]), loaded["plain"]
    assert loaded["deep"]["list"][1:] == ["text", 28] and loaded["deep"]["list"][0][1] == 4, loaded["deep"]
    older = state(0)
    dcp.load(older, storage_reader=StorageReader(directory), checkpoint_id=3)
    assert torch.equal(older["rows"].full_tensor(), state(3)["rows"].full_tensor())
    print("loaded", rank)
"""


def ranks(world, *argv):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        number = listener.getsockname()[1]
    running = [subprocess.Popen([PYTHON, "-c", RANKS, *argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(
        os.environ, PYTHONPATH=PACKAGE, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(number),
        **ENV)) for rank in range(world)]
    ended = [process.communicate(timeout=200) for process in running]
    for process, (_, errors) in zip(running, ended):
        equal(process.returncode, 0, errors[-2500:])
    return [out for out, _ in ended]


def verify(directory):
    done = subprocess.run([LOCKSTEP, "ckpt", "verify", directory], capture_output=True, text=True)
    equal(done.returncode, 0, done.stdout + done.stderr)
    return done.stdout


@test
def one_process_saves_and_loads(place):
    done = python(BEGIN + """
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(8, 4)).sum().backward()
optimizer.step()
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "empty": torch.empty(0, 3), "scalar": torch.tensor(2.5),
         "half": torch.randn(3).to(torch.bfloat16), "note": "text"}
writer = StorageWriter(directory, keep=2)
for step in 10, 20, 30:
    state["scalar"] = torch.tensor(float(step))
    dcp.save(state, checkpoint_id=step, storage_writer=writer)
fresh = {"model": {name: torch.zeros_like(value) for name, value in state["model"].items()},
         "optimizer": {"state": {key: {name: torch.zeros_like(value) for name, value in item.items()} for key, item in
                       state["optimizer"]["state"].items()}, "param_groups": [dict.fromkeys(state["optimizer"]["param_groups"][0], 0)]},
         "empty": torch.ones(0, 3), "scalar": torch.tensor(0.0), "half": torch.zeros(3, dtype=torch.bfloat16), "note": ""}
fresh["optimizer"]["param_groups"][0]["params"] = [0, 0, 0, 0]
reader = StorageReader(directory)
dcp.load(fresh, storage_reader=reader)
assert reader.step == 30 and fresh["scalar"] == 30.0 and fresh["note"] == "text"
assert all(torch.equal(fresh["model"][name], value) for name, value in state["model"].items())
assert torch.equal(fresh["half"], state["half"]) and fresh["empty"].shape == (0, 3)
assert fresh["optimizer"]["param_groups"] == state["optimizer"]["param_groups"], fresh["optimizer"]["param_groups"]
assert torch.equal(fresh["optimizer"]["state"][0]["exp_avg"], state["optimizer"]["state"][0]["exp_avg"])
try:
    dcp.save(state, checkpoint_id="latest", storage_writer=writer)
except Exception as error:
    print("names no step" in str(error) + repr(error.__cause__) + repr(getattr(error, "failures", "")))
""", ENV, [place + "/ckpt"])
    equal((done.returncode, done.stdout), (0, "True\n"), done.stderr[-2500:])
    verify(place + "/ckpt")


@test
def several_ranks_and_another_number_of_ranks(place):
    ranks(2, place + "/ckpt", "save")
    assert "step 4  verified" in verify(place + "/ckpt")
    equal(ranks(2, place + "/ckpt", "load"), ["loaded 0\n", "loaded 1\n"])
    equal(ranks(3, place + "/ckpt", "load"), ["loaded 0\n", "loaded 1\n", "loaded 2\n"])


@test
def a_damaged_point_is_not_loaded(place):
    script = BEGIN + """
state = {"a": torch.arange(1000.0)}
if sys.argv[2] == "save":
    writer = StorageWriter(directory)
    for step in 1, 2:
        dcp.save(state, checkpoint_id=step, storage_writer=writer)
else:
    loaded = {"a": torch.zeros(1000)}
    try:
        dcp.load(loaded, storage_reader=StorageReader(directory, step=2))
        print("loaded a damaged point")
    except BaseException:  # DCP's own is no Exception
        print("refused")
    reader = StorageReader(directory)
    dcp.load(loaded, storage_reader=reader)
    print(reader.step, torch.equal(loaded["a"], state["a"]))
"""
    equal(python(script, ENV, [place + "/ckpt", "save"]).returncode, 0)
    with open(place + "/ckpt/step-2/rank-00000.safetensors", "r+b") as file:
        file.seek(-9, 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    done = python(script, ENV, [place + "/ckpt", "load"])
    equal(done.stdout, "refused\n1 True\n", done.stderr[-2000:])


need_torch()
try:
    import torch.distributed.checkpoint
    torch.distributed.checkpoint.load
except (ImportError, AttributeError):
    import torch
    print("1..0 # SKIP torch %s has no torch.distributed.checkpoint.load; tools/torch-newer runs this test" % torch.__version__)
    sys.exit(0)
main()
