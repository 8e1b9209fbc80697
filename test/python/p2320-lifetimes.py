# SPDX-License-Identifier: Apache-2.0
"""What a program lets go of is freed as it would be without lockstep: tensors, works, frames, handlers."""
import os

from tap import equal, main, need_torch, test
from twice import attached, twice

need_torch()

HEAD = """
import gc, os, signal, sys, threading, time, weakref, torch, torch.distributed as dist
from torch import nn
gc.disable()  # what is freed is freed by the last reference
dist.init_process_group("gloo")
rank = dist.get_rank()
def freed(reference, seconds=5):
    # gloo's own thread may let go a moment later.
    until = time.monotonic() + seconds
    while reference() is not None and time.monotonic() < until:
        time.sleep(0.001)
    return reference() is None
"""
TAIL = """
dist.barrier()
dist.destroy_process_group()
"""


@test
def the_callers_variables_are_freed_when_it_lets_go_of_them(place):
    seen, _ = twice(place, HEAD + """
# Each calls the group, or torch's functions, itself, drops its variables and looks before it returns.
def direct():
    async_op = False
    t = torch.ones(1000); local = torch.ones(1000); seen = weakref.ref(t), weakref.ref(local)
    dist.group.WORLD.allreduce([t]).wait()
    del t, local
    return [freed(one) for one in seen]
def through_torch():
    async_op = False
    t = torch.ones(1000); local = torch.ones(1000); seen = weakref.ref(t), weakref.ref(local)
    dist.all_reduce(t)
    dist.broadcast(local, 0)
    del t, local
    return [freed(one) for one in seen]
def objects():
    held = [None, None]; t = torch.ones(10); seen = weakref.ref(t)
    dist.all_gather_object(held, t)
    del t
    return freed(seen)
def messages():
    async_op = False
    t = torch.ones(1000); seen = weakref.ref(t)
    work = dist.isend(t, 1) if rank == 0 else dist.irecv(t, 0)
    work.wait()
    del t, work
    return freed(seen)
class Module:
    # As a program that calls itself torch: the name of a module is not enough.
    def __init__(self):
        self.names = {"dist": dist, "torch": torch, "weakref": weakref, "freed": freed, "__name__": "torchlike.distributed"}
        exec('''
def run():
    async_op = False
    t = torch.ones(1000); seen = weakref.ref(t)
    dist.group.WORLD.allreduce([t]).wait()
    del t
    return freed(seen)
''', self.names)
print(direct(), through_torch(), objects(), messages(), Module().names["run"]())
""" + TAIL, ranks=2)
    equal(seen.out, ["[True, True] [True, True] True True True\n"] * 2)


ASYNC = HEAD + """
def waited():
    t = torch.ones(1000); work = dist.all_reduce(t, async_op=True); seen = weakref.ref(t), weakref.ref(work)
    work.wait()
    del t, work
    return [freed(one) for one in seen]
def by_future():
    t = torch.ones(1000); seen = weakref.ref(t)
    future = dist.all_reduce(t, async_op=True).get_future()
    future.wait()
    del t, future
    return freed(seen)
def polled():
    t = torch.ones(1000); work = dist.broadcast(t, 0, async_op=True); seen = weakref.ref(t)
    while not work.is_completed():
        pass
    del t, work
    return freed(seen)
def dropped():
    t = torch.ones(1000); seen = weakref.ref(t)
    dist.all_gather([torch.ones(1000) for _ in range(2)], t, async_op=True)
    del t
    return freed(seen)
def many():
    seen = []
    for _ in range(50):
        t = torch.ones(1000); seen.append(weakref.ref(t))
        work = dist.all_reduce(t, async_op=True)
    work.wait()
    del t, work
    return all(map(freed, seen))
print(waited(), by_future(), polled(), dropped(), many())
"""


@test
def what_an_operation_used_is_freed_when_it_is_over(place):
    for way in "c", "python":
        at = os.path.join(place, way)
        os.mkdir(at)
        seen, found = twice(at, ASYNC + TAIL, ranks=2, env={"LOCKSTEP_GLOO": way})
        equal(seen.out, ["[True, True] True True True True\n"] * 2)
        for ring in found:
            beside = [op for op in ring.ops() if op.stream]
            equal((len(beside), {op.end is not None for op in beside}), (54, {True}))
            assert all(op.start <= op.end for op in beside)


@test
def where_c_sees_the_end_no_work_is_held(place):
    seen, _ = attached(place, ASYNC + """
from lockstep import _ends, _gloo
held = [reference for reference, _ in _ends.works.open.values() if type(reference) is _ends._Held]
for number in range(2000):  # more than C has room for, if nobody looks at those that are over
    work = dist.all_reduce(torch.ones(10), async_op=True)
    if number % 100 == 99:
        work.wait()
    held += [reference for reference, _ in _ends.works.open.values() if type(reference) is _ends._Held]
print(held, _gloo.gloo.follows)
dist.all_reduce(torch.ones(10))
while _gloo.gloo.look() or _ends.works.look_at_all():
    time.sleep(0.001)
""" + TAIL, ranks=2, env={"LOCKSTEP_GLOO": "c"})
    equal(seen.status, [0, 0], seen.err)
    equal([out.splitlines()[1] for out in seen.out], ["[] {0: True}"] * 2)


@test
def handlers_and_exceptions_are_freed(place):
    seen, _ = twice(place, HEAD + """
net = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
class Handler:
    def handle(self, number, frame):
        pass
def handlers():
    handler = Handler(); seen = weakref.ref(handler)
    signal.signal(signal.SIGUSR1, handler.handle)
    net(torch.ones(2, 8)).sum().backward()
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    del handler
    return seen() is None
def raised():
    t = torch.ones(1000); seen = weakref.ref(t)
    try:
        dist.all_reduce(t, op="no such op")
    except Exception as error:
        print(type(error).__name__)
    del t
    return seen() is None
def failed_backward():
    t = torch.ones(2, 8, requires_grad=True); seen = weakref.ref(t)
    def fail(gradient):
        raise ValueError("enough")
    t.register_hook(fail)
    try:
        net(t).sum().backward()
    except ValueError as error:
        print(error)
    del t
    return seen() is None
def threads():
    seen = []
    def run():
        t = torch.ones(1000); seen.append(weakref.ref(t))
        raise ValueError("in a thread")
    hook, threading.excepthook = threading.excepthook, lambda args: None
    thread = threading.Thread(target=run)
    thread.start(), thread.join()
    threading.excepthook = hook
    return seen[0]() is None
print(handlers(), raised(), failed_backward(), threads())
""" + TAIL, ranks=2, env={"LOCKSTEP_GLOO": "python"})
    equal(seen.status, [0, 0], seen.err)


main()
