# SPDX-License-Identifier: Apache-2.0
"""Training on several ranks over gloo: losses are bit-equal with and without lockstep, and the ring
has the groups, the collectives, the messages and the layout that the script used.
"""
import os
import tempfile

from tap import equal, main, need_torch, test
from twice import attached, twice

need_torch()

HEAD = """
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
dist._DEFAULT_FIRST_BUCKET_BYTES = 1000  # several buckets of so small a model
torch.manual_seed(7)
def make():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 3))
def say(loss):
    print(loss.detach().numpy().tobytes().hex(), flush=True)
def loop(net, steps=4, opt=None):
    opt = opt or torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for i in range(steps):
        loss = net(torch.randn(4, 8)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        say(loss)
"""
TAIL = """
dist.barrier()
dist.destroy_process_group()
"""
THREADS = 65280  # the first stream of the host's own threads
LATE = THREADS + 128  # ... of those whose ends are seen late; buckets are first, then what Python launches
PARAMETER_BYTES = 4 * (8 * 64 + 64 + 64 + 64 + 64 * 3 + 3)


def reduces_halves():
    """Whether this torch's gloo does: some builds refuse float16."""
    import torch
    import torch.distributed as dist
    with tempfile.TemporaryDirectory() as place:
        dist.init_process_group("gloo", init_method="file://%s/store" % place, rank=0, world_size=1)
        try:
            dist.all_reduce(torch.ones(1, dtype=torch.float16))
        except RuntimeError as error:
            print("# this gloo reduces no float16: %s" % error, flush=True)
            return False
        finally:
            dist.destroy_process_group()
    return True


def check(found, world):
    equal([(ring.rank, ring.world) for ring in found], [(rank, world) for rank in range(world)])
    for ring in found:
        equal((ring.dropped, ring.lost, ring.closed, ring.check_nesting()), (0, 0, 1, []))
        for comm in filter(None, ring.comms):
            equal((comm.started, comm.ended), (comm.enqueued, comm.enqueued))
            equal(comm.p2p_ended, comm.p2p_enqueued)
    # What one rank calls the n-th op of a group is that of all its members.
    ops = {}
    for ring in found:
        for op in ring.ops():
            ops.setdefault((ring.comms[op.comm].id, op.key), set()).add((op.op, op.bytes, op.dtype))
    equal({key: len(said) for key, said in ops.items() if len(said) > 1}, {})
    return found


@test
def buckets_of_three_ranks_are_recorded_and_losses_are_bit_equal(place):
    _, found = twice(place, HEAD + """
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
net = DDP(make(), bucket_cap_mb=0.001)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
g = torch.Generator().manual_seed(3)
rows = TensorDataset(torch.randn(48, 8, generator=g))
for epoch in range(2):
    for x, in DataLoader(rows, batch_size=4, sampler=DistributedSampler(rows)):
        loss = net(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        say(loss)
""" + TAIL, ranks=3)
    check(found, 3)
    for ring in found:
        comm = ring.comms[0]
        equal((comm.size, comm.index, comm.kind, ring.comms_used), (3, ring.rank, "world", 1))
        equal(comm.id, found[0].comms[0].id)
        equal(ring.layout["dp"], (ring.rank, 3))
        equal(ring.steps(), list(range(8)))
        equal([name for name in ring.phases(None) if name != "gc"], ["init", "comm-init", "data"])
        for step in range(1, 8):
            phases = [name for name in ring.phases(step) if name not in ("data", "gc")]
            equal(phases, ["forward", "backward", "optimizer"], "step %d" % step)
            reduces = [op for op in ring.ops(step) if op.op == "all_reduce"]
            equal(sum(op.bytes for op in reduces), PARAMETER_BYTES)
            assert len(reduces) > 1, "buckets were to be small"
            begin, end = (event.time for event in ring.of("phase_begin", "phase_end")
                          if event.step == step and event.detail == "backward")
            for op in reduces:
                assert begin < op.start <= op.end < end and op.stream == THREADS + 128, op
            equal([op.stream for op in ring.ops(step) if op.op == "broadcast"][-1:], [0])  # buffers


PATHS = HEAD + """
import gc, threading, weakref
from lockstep import _buckets, _collectives, _ddp, _gloo
from lockstep._probe import probe
by_c = os.environ.get("LOCKSTEP_GLOO") != "python"
net = DDP(make(), bucket_cap_mb=0.001)
group = dist.group.WORLD
assert (group in _gloo.gloo.groups) == by_c and bool(_ddp._held) != by_c
loop(net)
net = DDP(make(), bucket_cap_mb=0.001)
loop(net)
# What C++ refuses comes through as it is, and is not recorded; nor is what Python records itself twice.
try:
    _collectives.originals["allreduce"](group, [torch.ones(1), torch.ones(2)])
except (RuntimeError, ValueError) as error:
    print(type(error).__name__, error)
dist.all_reduce(torch.ones(5))
pair = dist.new_group([0, 1])
other = DDP(make().double(), process_group=pair, bucket_cap_mb=0.001)
other(torch.ones(4, 8, dtype=torch.float64)).sum().backward()
# Sparse gradients: another kind of work, and of tensor.
rows = DDP(nn.EmbeddingBag(10, 3, mode="sum", sparse=True), process_group=pair)
for _ in range(2):
    rows(torch.tensor([[1, 2], [3, 4 + rank]])).sum().backward()
# In another thread.
thread = threading.Thread(target=loop, args=(net, 2))
thread.start(), thread.join()
gone = weakref.ref(net.reducer)
del net, other, rows
gc.collect()
_buckets.buckets.look()
print(gone(), len(_ddp._held), len(_buckets.buckets.open), _gloo.gloo.look())
""" + TAIL


def of_both_ways(place, script, **more):
    """The ring's ops and the output, with buckets marked by C and by Python."""
    both = []
    for way in "c", "python":
        at = os.path.join(place, way)
        os.mkdir(at)
        seen, found = attached(at, script, ranks=2, env={"LOCKSTEP_GLOO": way, "LOCKSTEP_DEBUG": "0"}, **more)
        equal((seen.status, seen.err), ([0, 0], ["", ""]))
        check(found, 2)
        both.append((seen.out, [[(op.op, op.comm, op.key, op.bytes, op.stream, op.step, op.dtype) for op in ring.ops()]
                                for ring in found]))
    equal(*both)
    return both[0]


@test
def c_and_python_leave_the_same_records(place):
    out, ops = of_both_ways(place, PATHS)
    assert "None 0 0 0" in out[0], out
    equal({(op[0], op[4], op[6]) for op in ops[0] if op[4]},
          {("all_reduce", THREADS + 128, "float32"), ("all_reduce", THREADS + 129, "float64"),
           ("all_reduce", THREADS + 129, "float32")})
    assert len(ops[0]) > 30, len(ops[0])


@test
def what_lockstep_gloo_says_is_heard(place):
    said = {"c": "", "off": "", "C": "LOCKSTEP_GLOO=C: expected c, python or off; ignored",
            "python": "buckets of a group are marked by Python: LOCKSTEP_GLOO=python wants it so"}
    for wish, words in said.items():
        at = os.path.join(place, wish + "-")
        os.mkdir(at)
        seen, found = attached(at, HEAD + "loop(DDP(make()), 2)\n" + TAIL, ranks=2,
                               env={"LOCKSTEP_GLOO": wish, "LOCKSTEP_DEBUG": "1"})
        equal((seen.status, seen.err), ([0, 0], ["lockstep: python: %s\n" % words if words else ""] * 2))
        equal([any(op.stream for op in ring.ops()) for ring in found], [wish != "off"] * 2)


@test
def groups_come_and_go_and_a_debugged_one_is_left_to_python(place):
    seen, found = attached(place, """
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from lockstep import _ddp, _gloo
def train(place, expected):
    dist.init_process_group("gloo", init_method="file://" + place, rank=0, world_size=1)
    net = DDP(nn.Linear(8, 8), bucket_cap_mb=0.0001)
    group = dist.group.WORLD
    assert (group in _gloo.gloo.groups) == expected, expected
    for _ in range(3):
        net(torch.ones(4, 8)).sum().backward()
    if os.fork() == 0:   # has no ring, and no threads of gloo's: what was launched is not waited for
        _gloo.gloo.over and _gloo.gloo.over()
        os._exit(0)
    os.wait()
    del net, group
    dist.destroy_process_group()
for number in range(3):
    train(os.path.abspath("store%d" % number), True)
    print(len(_gloo.gloo.groups) < 2)  # some versions of torch hold the last one
os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
dist.set_debug_level_from_env()
train(os.path.abspath("store"), False)
""", env={"RANK": "0", "WORLD_SIZE": "1"})
    equal(seen.status, [0], seen.err)
    equal(seen.out[0], "True\n" * 3)
    ring, = found
    reduces = [op for op in ring.ops() if op.op == "all_reduce" and op.stream >= THREADS + 128]
    equal((len(reduces) >= 12, {op.end is not None for op in reduces}), (True, {True}))


@test
def a_hook_of_the_program_wins_and_all_ways_of_ddp_are_bit_equal(place):
    halves = reduces_halves()
    seen, found = twice(place, HEAD + """
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
calls = []
def mine(state, bucket):
    calls.append(state)
    return default_hooks.allreduce_hook(None, bucket)
early, late = DDP(make()), DDP(make())
early.register_comm_hook("early", mine)
loop(early)
loop(late, 2)
late.register_comm_hook("late", mine)
loop(late, 2)
print(sorted(set(calls)), calls == sorted(calls))
try:
    late.register_comm_hook("again", mine)
except RuntimeError as error:
    print(str(error).splitlines()[0][:60])
third = DDP(make())
if %d:
    third.register_comm_hook(None, default_hooks.fp16_compress_hook)
loop(third)
for more in (dict(), dict(find_unused_parameters=True), dict(static_graph=True),
             dict(gradient_as_bucket_view=True), dict(broadcast_buffers=False)):
    loop(DDP(make(), bucket_cap_mb=0.001, **more))
net = DDP(make())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
with net.join():
    loop(net, 2 + rank, opt)
with net.no_sync():
    net(torch.ones(4, 8)).sum().backward()
loop(net, 2, opt)
import copy, pickle
pickle.loads(pickle.dumps(net.module)), copy.deepcopy(net)
print(isinstance(net.reducer, dist.Reducer), isinstance(net, dist.Reducer))
print(DDP.forward.__name__, net._get_ddp_logging_data()["world_size"])
""" % halves + TAIL, ranks=2)
    equal(seen.status, [0, 0], seen.err)
    assert "['early', 'late'] True" in seen.out[0], seen.out[0]
    check(found, 2)
    sizes = {step: sum(op.bytes for op in found[0].ops(step) if op.op == "all_reduce")
             for step in found[0].steps()}
    equal([size for size in sizes.values() if size][:12],
          [PARAMETER_BYTES] * 8 + [PARAMETER_BYTES // (1 + halves)] * 4)


@test
def what_is_called_from_python_is_recorded(place):
    halves = reduces_halves()
    _, found = twice(place, HEAD + """
pairs = [dist.new_group([0, 1]), dist.new_group([1, 2])]
t = torch.ones(10, dtype=torch.float64)
dist.all_reduce(t)
handle = dist.all_reduce(t, async_op=True)
handle.wait()
dist.broadcast(t, 0)
dist.reduce(t, 1)
out = [torch.zeros(10, dtype=torch.float64) for _ in range(world)]
dist.all_gather(out, t)
dist.gather(t, out if rank == 0 else None, 0)
dist.scatter(t, out if rank == 0 else None, 0)
objects = [None] * world
dist.all_gather_object(objects, {"rank": rank})
if rank < 2:
    dist.all_reduce(t[:4], group=pairs[0])
if rank > 0:
    dist.all_reduce(t[:2], group=pairs[1])
after, before = (rank + 1) % world, (rank - 1) % world
got = torch.zeros(5)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((5,), float(rank)), after),
                                    dist.P2POp(dist.irecv, got, before)]):
    work.wait()
if rank == 0: dist.send(got, 1)
if rank == 1: dist.recv(got, 0)
print(t, got, objects)
from torch.distributed import all_reduce
all_reduce(t)
for dtype in torch.float32, HALF, torch.int64, torch.int32, torch.int8, torch.uint8:
    dist.all_reduce(torch.ones(4, dtype=dtype))
dist._broadcast_coalesced(dist.group.WORLD, [torch.ones(3), torch.ones(3, dtype=torch.int64)], 1 << 20, 0)
import inspect
print(list(inspect.signature(dist.all_reduce).parameters), dist.all_reduce.__module__)
""".replace("HALF", "torch.float16" if halves else "torch.float64") + TAIL, ranks=3)
    check(found, 3)
    for ring in found:
        world = [(op.op, op.bytes, op.stream) for op in ring.ops() if op.comm == 0]
        equal(world[:7], [("all_reduce", 80, 0), ("all_reduce", 80, LATE + 64), ("broadcast", 80, 0),
                          ("reduce", 80, 0), ("all_gather", 240, 0), ("gather", 80, 0),
                          ("scatter", 80, 0)])
        equal([op for op, _, _ in world[7:10]], ["all_gather", "all_gather", "all_reduce"])
        typed = [(op.op, op.bytes, op.dtype) for op in ring.ops() if op.comm == 0]
        equal({dtype for _, _, dtype in typed[:7]}, {"float64"})
        equal([dtype for _, _, dtype in typed[7:10]], ["int64", "uint8", "float64"])  # an object: its size, its bytes
        equal(typed[10:], [("all_reduce", 16, "float32"), ("all_reduce", 8, "float16") if halves else ("all_reduce", 32, "float64"),
                           ("all_reduce", 32, "int64"), ("all_reduce", 16, "int32"),
                           ("all_reduce", 4, "int8"), ("all_reduce", 4, "uint8"),
                           ("broadcast", 36, "mixed"), ("barrier", 0, "")])
        equal([op.end is not None for op in ring.ops()], [True] * len(ring.ops()))
    groups = [{comm.name: (comm.size, comm.index, comm.id) for comm in filter(None, ring.comms)}
              for ring in found]
    first, second = (sorted(set(name for group in groups for name in group) - {"world"}))
    equal([g[first][:2] for g in groups[:2]], [(2, 0), (2, 1)])
    equal([g[second][:2] for g in groups[1:]], [(2, 0), (2, 1)])
    equal(groups[0][first][2], groups[1][first][2])
    assert groups[1][first][2] != groups[1][second][2]
    equal([(op.op, op.peer, op.bytes) for op in found[0].messages()],
          [("send", 1, 20), ("recv", 2, 20), ("send", 1, 20)])
    equal({op.dtype for op in found[0].messages()}, {"float32"})
    equal([op.stream for op in found[1].messages()], [THREADS + 64, THREADS + 64, 0])


@test
def signals_in_backward_are_handled_as_ever_in_a_layout_of_the_environment(place):
    seen, found = twice(place, HEAD + """
import signal
class Late(TimeoutError): pass
def alarm(number, frame):
    raise Late("alarm")
signal.signal(signal.SIGALRM, alarm)
def started(gradient):
    # Not before backward, whose collectives the other rank would wait for.  Again and again: a torch that
    # loses the first one in its own code must not leave us waiting.
    signal.setitimer(signal.ITIMER_REAL, 0.02, 2)
net = DDP(nn.Sequential(*[nn.Linear(600, 600) for _ in range(8)]), bucket_cap_mb=1)
x = torch.randn(256, 600)
for i in range(2):
    loss = net(x).pow(2).mean()
    loss.register_hook(started)
    try:
        loss.backward()
        while True: signal.pause()
    except Late as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(type(error).__name__, error, flush=True)
print(signal.getsignal(signal.SIGALRM) is alarm, signal.getsignal(signal.SIGINT).__name__)
say(net(x).pow(2).mean())
""" + TAIL, ranks=2, env={"LOCKSTEP_LAYOUT": "pp=2"})
    equal(seen.status, [0, 0], seen.err)
    assert seen.out[0].startswith("Late alarm\nLate alarm\nTrue default_int_handler\n"), seen.out[0]
    # The environment says the layout.
    equal([(ring.layout["pp"], ring.layout["dp"]) for ring in check(found, 2)],
          [((0, 2), (0, 1)), ((1, 2), (0, 1))])


@test
def ranks_made_by_multiprocessing_are_ranks_and_their_parent_is_none(place):
    seen, found = twice(place, """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
def work(rank, world, port, how):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(rank)
    net = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(3):
        loss = net(torch.randn(2, 4)).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    with open("rank%d" % rank, "w") as file:
        print(loss.item(), file=file)
    dist.destroy_process_group()
    if rank == 1 and how == "fork":
        os._exit(5)
def port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
if __name__ == "__main__":
    mp.spawn(work, args=(2, port(), "spawn"), nprocs=2)
    at = port()
    fork = mp.get_context("fork")
    children = [fork.Process(target=work, args=(rank, 2, at, "fork")) for rank in range(2)]
    for child in children: child.start()
    for child in children: child.join()
    print([child.exitcode for child in children])
""")
    equal((seen.status, seen.out), ([0], ["[0, 5]\n"]))
    equal([(ring.rank, ring.world, ring.steps()) for ring in found],
          [(0, 2, [0, 1, 2])] * 2 + [(1, 2, [0, 1, 2])] * 2)


MEGATRON = """
import torch.distributed as dist
_groups = {}
def initialize_model_parallel(tensor_model_parallel_size=1):
    for start in (0, 2):
        group = dist.new_group([start, start + 1])
        if dist.get_rank() // 2 * 2 == start: _groups["tp"] = group
    for start in (0, 1):
        group = dist.new_group([start, start + 2])
        if dist.get_rank() % 2 == start: _groups["dp"] = group
def get_tensor_model_parallel_group(): return _groups["tp"]
def get_tensor_model_parallel_world_size(): return 2
def get_tensor_model_parallel_rank(): return dist.get_rank() % 2
def get_data_parallel_group(): return _groups["dp"]
def get_data_parallel_world_size(): return 2
def get_data_parallel_rank(): return dist.get_rank() // 2
def get_pipeline_model_parallel_world_size(): raise AssertionError("not initialized")
def get_pipeline_model_parallel_rank(): raise AssertionError("not initialized")
"""


@test
def megatrons_layout_is_found(place):
    package = os.path.join(place, "lib", "megatron", "core")
    os.makedirs(package)
    with open(os.path.join(package, "parallel_state.py"), "w") as file:
        file.write(MEGATRON)
    script = "import sys; sys.path.insert(0, %r)\n" % os.path.join(place, "lib") + HEAD + """
from megatron.core import parallel_state as mpu
mpu.initialize_model_parallel(2)
t = torch.ones(4)
dist.all_reduce(t, group=mpu.get_tensor_model_parallel_group())
dist.all_reduce(t, group=mpu.get_data_parallel_group())
print(t)
""" + TAIL
    seen, found = attached(place, script, ranks=4)
    equal(seen.status, [0] * 4, seen.err)
    check(found, 4)
    for ring in found:
        equal((ring.layout["tp"], ring.layout["dp"], ring.layout["pp"]),
              ((ring.rank % 2, 2), (ring.rank // 2, 2), (0, 1)))
        equal([(comm.kind, comm.size, comm.index) for comm in filter(None, ring.comms)],
              [("tp", 2, ring.rank % 2), ("dp", 2, ring.rank // 2), ("world", 4, ring.rank)])


main()
