# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of several ranks: one step for all, slices of replicas, parts of DTensors, another number of ranks."""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import time

from tap import BUILD, LOCKSTEP, PACKAGE, PYTHON, Skip, equal, main, need_torch, test

BEGIN = """
import os, sys
import torch
import torch.distributed as dist
import lockstep
directory = sys.argv[1]
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
"""
REPLICAS = BEGIN + """
model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters())
checkpoints = lockstep.Checkpointer(directory, replicated=True)
found = checkpoints.load_latest(model=model, optimizer=optimizer)
first = found.step + 1 if found else 0
if found and world == 2:
    assert found.extra == {"rank": rank}, found.extra
torch.manual_seed(100 + rank)
for step in range(first, first + 3):
    parallel(torch.ones(4, 5) * (step + rank)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
assert checkpoints.save(step, model=model, optimizer=optimizer, extra={"rank": rank}), checkpoints.last_error
assert checkpoints.wait(timeout=90), checkpoints.last_error
if rank == 0:
    print("found", found and found.step, "sum", sum(p.sum().item() for p in model.parameters()))
"""
DRIFT = BEGIN + """
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4))
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters())
checkpoints = lockstep.Checkpointer(directory, replicated=True)
found = checkpoints.load_latest(model=model, optimizer=optimizer)
if found:
    print("found", found.step)
    if rank < 2 and sys.argv[2] == "buffers":
        assert model[1].running_mean.tolist() == found.extra, (model[1].running_mean.tolist(), found.extra)
else:
    for step in range(3):
        parallel(torch.rand(5, 6) + 10 * rank).square().sum().backward()  # BatchNorm's statistics differ
        optimizer.step()
        optimizer.zero_grad()
        if step == 1 and rank == 1 and sys.argv[2] != "buffers":
            with torch.no_grad():
                if sys.argv[2] == "parameter":
                    model[2].weight[3, 7] += 1e-3
                else:
                    optimizer.state[model[0].weight]["exp_avg"][0, 0] += 1e-3
        assert checkpoints.save(step, model=model, optimizer=optimizer, extra=model[1].running_mean.tolist()), checkpoints.last_error
        print(step, checkpoints.wait("verified", 90) or checkpoints.last_error)
        dist.barrier()
"""
SHARDS = BEGIN + """
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("shard",))
class Model(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        make = lambda shape: torch.arange(shape[0] * shape[1], dtype=torch.float32).reshape(shape) * scale
        self.rows = torch.nn.Parameter(distribute_tensor(make((7, 4)), mesh, [Shard(0)]))
        self.same = torch.nn.Parameter(distribute_tensor(make((5, 2)), mesh, [Replicate()]))
        if sys.argv[2] == "columns":
            self.columns = torch.nn.Parameter(distribute_tensor(make((3, 6)), mesh, [Shard(1)]))
model = Model(1.0 if sys.argv[3] == "save" else 0.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
def train():
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
checkpoints = lockstep.Checkpointer(directory)
if sys.argv[3] == "save":
    train()
    assert checkpoints.save(4, model=model, optimizer=optimizer), checkpoints.last_error
    assert checkpoints.wait(timeout=90), checkpoints.last_error
else:
    found = checkpoints.load_latest(model=model, optimizer=optimizer)
    assert found, checkpoints.last_error
train()
for name, parameter in model.named_parameters():
    whole = parameter.full_tensor()
    if rank == 0:
        print(name, whole.tolist())
"""


NODES = BEGIN + """
model = torch.nn.Linear(5, 7)
checkpoints = lockstep.Checkpointer(directory + "/node-%d" % rank, node_ranks=1, keep=1)
assert checkpoints.load_latest(model=model) is None
for step in range(3):
    with torch.no_grad():
        model.weight += 1
    if rank == 0 or step < 2 or sys.argv[2] == "all":  # without "all" rank 1 has no step 2
        assert checkpoints.save(step, model=model), checkpoints.last_error
        assert checkpoints.wait("verified", 90), checkpoints.last_error
    dist.barrier()
checkpoints.wait("verified", 90)
dist.barrier()
"""
LOAD = BEGIN + """
model = torch.nn.Linear(5, 7)
checkpoints = lockstep.Checkpointer(directory + "/node-%d" % rank, node_ranks=1, sources=sys.argv[2:])
try:
    found = checkpoints.load_latest(model=model)
    print("found", found and found.step)
except lockstep.CheckpointError as error:
    print("error", error)
sys.stdout.flush()
dist.barrier()
"""


def port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ranks(script, world, *argv):
    """What the ranks print, by rank."""
    return [out for out, _ in outputs(script, world, *argv)]


def outputs(script, world, *argv):
    """What the ranks print and complain about, by rank."""
    number, running = port(), []
    for rank in range(world):
        env = dict(os.environ, PYTHONPATH=PACKAGE, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(number), OMP_NUM_THREADS="1", USE_LIBUV="0",
                   LOCKSTEP_PROGRAM=LOCKSTEP, LOCKSTEP_STATE=argv[0] + "/state", no_proxy="*",
                   LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
        for name in "LOCKSTEP_DIR", "LOCKSTEP_RUN":
            env.pop(name, None)
        running.append(subprocess.Popen([PYTHON, "-c", script, *argv], env=env, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE))
    ended = [process.communicate(timeout=200) for process in running]
    for process, (_, errors) in zip(running, ended):
        equal(process.returncode, 0, errors[-2000:])
    return ended


@test
def replicas_save_slices_and_load_the_same_step(place):
    first = ranks(REPLICAS, 2, place + "/ckpt")[0]
    assert first.startswith("found None"), first
    sizes = [os.path.getsize(place + "/ckpt/step-2/rank-0000%d.safetensors" % rank) for rank in (0, 1)]
    assert max(sizes) < 1.5 * min(sizes), sizes
    second = ranks(REPLICAS, 2, place + "/ckpt")[0]
    assert second.startswith("found 2"), second
    alone = ranks(REPLICAS, 1, place + "/ckpt")[0]  # another number of ranks
    assert alone.startswith("found 5"), alone
    done = subprocess.run([LOCKSTEP, "ckpt", "verify", place + "/ckpt"], capture_output=True, text=True)
    equal(done.returncode, 0, done.stdout + done.stderr)


@test
def buffers_are_each_ranks_own(place):
    for out in ranks(DRIFT, 2, place + "/ckpt", "buffers"):
        equal(out.splitlines(), ["0 True", "1 True", "2 True"])
    for world in 2, 3, 1:
        for out in ranks(DRIFT, world, place + "/ckpt", "buffers"):
            equal(out, "found 2\n")


@test
def replicas_that_differ_are_no_checkpoint(place):
    for what, tensor in ("parameter", "model.2.weight"), ("moment", "optimizer.state.0.exp_avg"):
        outs = ranks(DRIFT, 2, place + "/" + what, what)
        said = [line for out in outs for line in out.splitlines() if line.startswith("1 ")]
        assert any("replicas differ: tensor %s of rank " % tensor in line for line in said), outs
        assert all(out.startswith("0 True\n") for out in outs), outs
        for out in ranks(DRIFT, 2, place + "/" + what, what):
            equal(out, "found 0\n")


@test
def all_ranks_go_back_when_one_cannot_load(place):
    for _ in range(2):
        ranks(REPLICAS, 2, place + "/ckpt")
    damage(place + "/ckpt/step-5/rank-00001.safetensors")
    out = ranks(REPLICAS, 2, place + "/ckpt")[0]
    assert out.startswith("found 2"), out


def damage(path):
    with open(path, "r+b") as file:
        file.seek(-5, 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 8]))


def points(place, rank):
    return sorted(name for name in os.listdir("%s/node-%d" % (place, rank)) if name.startswith("step-"))


def only_last(place):
    """The writers remove older points after their trainers have ended."""
    for rank in 0, 1:
        until = time.monotonic() + 60
        while points(place, rank) != ["step-2"] and time.monotonic() < until:
            time.sleep(0.05)
        equal(points(place, rank), ["step-2"])


@test
def a_node_removes_no_point_that_another_still_needs(place):
    ranks(NODES, 2, place, "but one")
    assert "step-1" in points(place, 0) and points(place, 1)[-1] == "step-1", (points(place, 0), points(place, 1))
    equal([out.strip() for out in ranks(LOAD, 2, place)], ["found 1", "found 1"])


@test
def nodes_keep_what_all_have_verified_and_never_begin_anew_beside_damage(place):
    ranks(NODES, 2, place, "all")
    only_last(place)
    damage(place + "/node-1/step-2/rank-00001.safetensors")
    for out in ranks(LOAD, 2, place):
        assert out.startswith("error no checkpoint can be loaded: step 2: rank 1: ") and "wrong checksum" in out, out


@contextlib.contextmanager
def served(place, name):
    """The address of `lockstep ckpt serve` for that directory."""
    env = dict(os.environ, LOCKSTEP_STATE=place + "/state")
    server = subprocess.Popen([LOCKSTEP, "ckpt", "serve", os.path.join(place, name), "--listen", "127.0.0.1:0"], env=env, text=True,
                              stdout=subprocess.PIPE)
    try:
        yield re.search(r"http://[0-9.:]+", server.stdout.readline()).group()
    finally:
        server.terminate()
        server.communicate()


@test
def a_node_without_its_disk_loads_what_another_one_has_kept(place):
    ranks(NODES, 2, place, "all")
    only_last(place)
    shutil.copytree(place + "/node-1", place + "/copy-1")
    shutil.rmtree(place + "/node-1")
    for out in ranks(LOAD, 2, place):
        assert out.startswith("error no checkpoint can be loaded"), out
    os.mkdir(place + "/copy-0")
    with served(place, "copy-0") as empty, served(place, "copy-1") as url:
        gone = "http://127.0.0.1:1/{node}"
        for out, errors in outputs(LOAD, 2, place, gone, empty, url):
            equal(out, "found 2\n", errors)
        assert "lockstep: %s: step 2 is copied from there" % url in errors, errors
        assert "lockstep: http://127.0.0.1:1/1: " in errors, errors
        equal([out for out, _ in outputs(LOAD, 2, place, url)], ["found 2\n"] * 2)


@test
def a_damaged_point_is_brought_again(place):
    ranks(NODES, 2, place, "all")
    only_last(place)
    shutil.copytree(place + "/node-1", place + "/copy-1")
    damage(place + "/node-1/step-2/rank-00001.safetensors")
    with served(place, "copy-1") as url:
        for out, errors in outputs(LOAD, 2, place, url):
            equal(out, "found 2\n", errors)
    damage(place + "/node-1/step-2/rank-00001.safetensors")
    damage(place + "/copy-1/step-2/rank-00001.safetensors")
    with served(place, "copy-1") as url:  # the copy is damaged as well
        for out, errors in outputs(LOAD, 2, place, url):
            assert out.startswith("error no checkpoint can be loaded: "), (out, errors)
        assert "wrong checksum" in errors, errors


EXPERTS = BEGIN + """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.expert = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.tensor([float(rank)]))
torch.manual_seed(0)
model = Model()
with torch.no_grad():
    if sys.argv[2] == "experts":
        model.expert.weight += rank  # one name, another part of the model on each rank
checkpoints = lockstep.Checkpointer(directory)
try:
    found = checkpoints.load_latest(model=model)
    print("found", found and found.step, int(model.seen))
except lockstep.CheckpointError as error:
    print("error", error)
    sys.exit()
if not found:
    assert checkpoints.save(4, model=model) and checkpoints.wait("verified", 90), checkpoints.last_error
"""


@test
def parts_of_a_model_under_one_name_are_not_taken_for_replicas(place):
    for what in "experts", "replicas":
        ranks(EXPERTS, 2, place + "/" + what, what)
        equal(ranks(EXPERTS, 2, place + "/" + what, what), ["found 4 0\n", "found 4 1\n"])
    for world in 1, 3:
        for out in ranks(EXPERTS, world, place + "/experts", "experts"):
            equal(out, "error no checkpoint can be loaded: step 4: %stensor model.expert.weight: ranks 0 and 1 saved different contents "
                  "for the same place, so %d ranks cannot load it\n" % ("rank 0: " if world > 1 else "", world))
        equal(ranks(EXPERTS, world, place + "/replicas", "replicas"), ["found 4 %d\n" % (rank % 2 if rank < 2 else 0)
                                                                      for rank in range(world)])


FOREIGN = """#!/bin/sh
case "$*" in
*slow*) sleep 2 # a source that answers late is the test
    echo '{"step": 3}'; echo '{"step": 7}' ;;
*bad*) printf 'words \\033[2J of another machine\\n' >&2; exit 1 ;;
*odd*) echo '[1]' ;;
*) for step in '"9"' -4 true 8.5 null 18446744073709551616 7; do echo "{\\"step\\": $step}"; done ;;
esac
"""
ASK = """
from lockstep.checkpoint.sources import Sources
asked = []
def agree(value):
    asked.append(value)
    return [value]
found = Sources(["http://slow/1", "http://bad/", "http://odd/", "http://numbers/", "http://slow/2", "http://slow/3"], ".", 0, True)._steps(agree)
print({step: [source[0] for source in sources] for step, sources in sorted(found.items())})
print(asked[-1], len(asked) < 9)
"""


@test
def sources_are_asked_together_and_their_words_taken_with_care(place):
    with open(place + "/lockstep", "w") as file:
        file.write(FOREIGN)
    os.chmod(place + "/lockstep", 0o755)
    done = subprocess.run([PYTHON, "-c", ASK], env=dict(os.environ, PYTHONPATH=PACKAGE, LOCKSTEP_PROGRAM=place + "/lockstep"),
                          text=True, capture_output=True, timeout=100)
    slow = ["http://slow/1", "http://slow/2", "http://slow/3"]
    equal(done.stdout.splitlines()[:1], [str({3: slow, 7: [slow[0], "http://numbers/", *slow[1:]]})], done.stderr)
    assert done.stdout.splitlines()[1].startswith("False True"), done.stdout
    assert "lockstep: http://bad/: words ?[2J of another machine" in done.stderr, repr(done.stderr)
    assert "lockstep: http://odd/: " in done.stderr, done.stderr


def need_dtensor():
    try:
        import torch.distributed.tensor  # noqa: F401
    except ImportError:
        import torch
        raise Skip("torch %s has no torch.distributed.tensor" % torch.__version__) from None


@test
def parts_of_dtensors_come_back(place):
    need_dtensor()
    saved = ranks(SHARDS, 2, place + "/ckpt", "columns", "save")[0]
    equal(ranks(SHARDS, 2, place + "/ckpt", "columns", "load")[0], saved)


@test
def parts_of_dtensors_serve_another_number_of_ranks(place):
    need_dtensor()
    saved = ranks(SHARDS, 3, place + "/ckpt", "rows", "save")[0]
    equal(ranks(SHARDS, 2, place + "/ckpt", "rows", "load")[0], saved)


need_torch()
main()
