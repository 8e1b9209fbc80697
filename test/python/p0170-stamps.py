# SPDX-License-Identifier: Apache-2.0
"""Programs whose torch has a GPU, over a scripted driver: its stream is stamped where steps, phases and waits begin and end."""
import json
import os
import subprocess

from ring import rings
from tap import BUILD, LOCKSTEP, PYTHON, Skip, equal, main, need_torch, python, test

DRIVER = os.path.join(BUILD, "src", "device")
WAITS = os.path.join(BUILD, "src", "probe")  # a library that waits as torch's do
STEP_BEGIN, STEP_END, PHASE, WAIT_BEGIN, WAIT_END, HOST_WAIT = range(1, 7)

DEVICE = """
import ctypes, os, sys
os.environ.update(RANK=os.environ.get("RANK", "0"), WORLD_SIZE=os.environ.get("WORLD_SIZE", "1"))
import torch
cuda = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
memory = (ctypes.c_char * 64)()
place = ctypes.c_uint64(ctypes.addressof(memory))
torch._C._cuda_getCurrentRawStream = lambda device: 0
torch.cuda.is_initialized = lambda: True
torch.cuda.current_device = lambda: 0
def work(ms):  # a copy takes 10 ms of the device
    for _ in range(ms // 10):
        assert cuda.cuMemsetD8Async(place, ctypes.c_ubyte(1), ctypes.c_size_t(8), None) == 0
def wait():
    assert cuda.cuStreamSynchronize(None) == 0
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

TRAIN = DEVICE + """
import types
from lockstep import _stamps
ctypes.CDLL("libcudart-waits.so", mode=ctypes.RTLD_GLOBAL)
torch_waits = ctypes.CDLL("libtorch_waits.so")
event = types.SimpleNamespace(wait=lambda stream: None)
for step in range(12):
    loss = model(torch.ones(2, 4)).sum()
    work(10)
    if step == 5:
        _stamps.stamps.reducers = 1
    loss.backward()
    if step == 2:  # the stream that computes, and another one
        torch.cuda.Stream.wait_event(types.SimpleNamespace(cuda_stream=0), event)
        torch.cuda.Stream.wait_event(types.SimpleNamespace(cuda_stream=7), event)
    if step == 3:  # as item() waits, in C++
        assert torch_waits.waits_stream(None) == 11 and torch_waits.waits_stream(ctypes.c_void_p(8)) == 11
    optimizer.step()
    optimizer.zero_grad()
    wait()
"""

NO_DRIVER = """
import torch
torch.cuda.is_initialized = lambda: True
torch._C._cuda_getCurrentRawStream = lambda device: 0
torch.cuda.current_device = lambda: 0
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def need_driver():
    if not os.path.exists(DRIVER + "/libcuda.so.1"):
        raise Skip("no scripted driver in " + BUILD)


def environment(place, **more):
    script = place + "/script"
    with open(script, "w") as file:
        file.write("cuda.copy-us value 10000\n")
    return dict(LD_LIBRARY_PATH=DRIVER + ":" + WAITS, LOCKSTEP_FAKE_DEVICE=script, **more)


def stamps_of(ring, step):
    return [event.detail for event in ring.of("stamp") if event.step == step]


def attached(place, script, **more):
    site = os.path.join(BUILD, "bindings", "python", "lockstep", "site")
    folder = place + "/rings"
    os.makedirs(folder)
    environ = dict(os.environ, PYTHONPATH=site, LOCKSTEP_RUN="test", LOCKSTEP_DIR=folder, LOCKSTEP_RESTART="0",
                   LOCKSTEP_DEBUG="1", RANK="0", WORLD_SIZE="1", **environment(place, **more))
    done = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, env=environ, timeout=100)
    equal(done.returncode, 0, done.stderr[-2000:])
    (ring,) = rings(folder)
    return ring, done.stderr


@test
def steps_and_phases_are_stamped(place):
    need_driver()
    ring, said = attached(place, TRAIN)
    assert "stamps" not in said, said
    # blind: backward begins a step; phase begin and end of backward and optimizer
    equal(stamps_of(ring, 4), [STEP_BEGIN, PHASE, PHASE, PHASE, PHASE, STEP_END])
    equal(stamps_of(ring, 3), [STEP_BEGIN, PHASE, PHASE, HOST_WAIT, PHASE, PHASE, STEP_END])
    equal(stamps_of(ring, 2), [STEP_BEGIN, PHASE, PHASE, WAIT_BEGIN, WAIT_END, PHASE, PHASE, STEP_END])
    tags = [event.a for event in ring.of("stamp")]
    equal(tags, list(range(1, len(tags) + 1)))


@test
def the_last_wait_of_a_backward_is_stamped_before_it(place):
    need_driver()
    ring, _ = attached(place, TRAIN)
    equal(stamps_of(ring, 8), [STEP_BEGIN, PHASE, WAIT_BEGIN, WAIT_END, PHASE, PHASE, PHASE, STEP_END])


GROUP = DEVICE + """
import tempfile
import torch.distributed as dist
with tempfile.TemporaryDirectory() as place_of_store:
    dist.init_process_group("gloo", init_method="file://" + place_of_store + "/store", rank=0, world_size=1)
    for step in range(4):
        model(torch.ones(2, 4)).sum().backward()
        for beside in (False, True) if step == 2 else ():
            try:  # gloo does not take what is not in host memory; we do not look further than that
                dist.all_reduce(torch.empty(4, device="meta"), async_op=beside)
            except Exception:
                pass
        optimizer.step()
"""


@test
def an_operation_that_the_caller_waits_for_is_a_wait(place):
    need_driver()
    ring, _ = attached(place, GROUP)
    equal(stamps_of(ring, 2), [STEP_BEGIN, PHASE, PHASE, WAIT_BEGIN, WAIT_END, PHASE, PHASE, STEP_END])


GRAPH = DEVICE + """
import types
class CUDAGraph:
    def capture_begin(self): pass
    def capture_end(self): pass
    def replay(self): work(10)
from lockstep import _graphs
_graphs.hook_graphs(types.SimpleNamespace(CUDAGraph=CUDAGraph))
def whole():
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
graph, other = CUDAGraph(), CUDAGraph()
for step in range(2):
    whole()
graph.capture_begin()
whole()
graph.capture_end()
other.capture_begin()
model(torch.ones(2, 4))
other.capture_end()
for step in range(5):
    other.replay()
    graph.replay()
    wait()
"""


@test
def a_graph_that_steps_an_optimizer_ends_a_step(place):
    need_driver()
    ring, _ = attached(place, GRAPH)
    equal(ring.steps(), list(range(7)))
    equal([ring.phases(step) for step in (1, 2, 5)], [["backward", "optimizer"], ["other"], ["other"]])


@test
def without_a_driver_or_when_told_so_nothing_is_stamped(place):
    need_driver()
    ring, said = attached(place, TRAIN, LOCKSTEP_STAMPS="off")
    equal((ring.of("stamp"), "stamps" in said), ([], False))
    os.makedirs(place + "/none")
    ring, said = attached(place + "/none", NO_DRIVER)
    equal(ring.of("stamp"), [])
    assert said.count("no stamps") == 1, said


@test
def a_job_with_stamps_is_told_by_its_devices(place):
    need_driver()
    script = place + "/train.py"
    with open(script, "w") as file:
        file.write(DEVICE + """
for step in range(60):
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    work(20)
    optimizer.step()
    optimizer.zero_grad()
    wait()
""")
    environ = dict(os.environ, LOCKSTEP_STATE=place + "/state", **environment(place))
    done = subprocess.run([LOCKSTEP, "run", "-q", "-n", "2", "--name", "devices", "--", PYTHON, script], capture_output=True,
                          text=True, env=environ, timeout=100)
    equal(done.returncode, 0, done.stderr[-2000:])
    done = subprocess.run([LOCKSTEP, "why", "--json", "devices"], capture_output=True, text=True, env=environ, timeout=100)
    answer = json.loads(done.stdout)
    equal(answer["verdicts"], [])
    equal(answer["ledger"]["host_view"], False)
    productive = answer["ledger"]["buckets"]["productive"]
    assert productive > 2 * 55 * 0.020, answer["ledger"]


need_torch()
main()
