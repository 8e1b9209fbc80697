# SPDX-License-Identifier: Apache-2.0
"""What torch throws in a function that we stand in front of (_gloo.py) reaches the program as it would without us.

And with which versions of torch we stand there at all.
"""
import os

from tap import equal, main, need_torch, test
from twice import attached, twice

need_torch()

THROWS = """
import os, sys, threading, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
group = dist.group.WORLD
net = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
net(torch.ones(2, 8)).sum().backward()
try:
    from lockstep import _collectives, _gloo
    assert group in _gloo.gloo.groups
    allreduce = _collectives.originals["allreduce"]  # as C++ calls it: our functions in Python are not in between
except ImportError:
    allreduce = type(group).allreduce
def throw(tensors):
    try:
        allreduce(group, tensors)
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]
refused = [torch.ones(1), torch.ones(2)], [], [torch.ones(2, 2).to_sparse(), torch.ones(2)]
print([throw(tensors) for tensors in refused])
print({throw(refused[0]) for _ in range(1000)} == {throw(refused[0])})
said = []
threads = [threading.Thread(target=lambda: said.append(throw(refused[0]))) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(set(said)), None in said)
t = torch.ones(3)
allreduce(group, [t]).wait()
net(torch.ones(2, 8)).sum().backward()
print(t)
dist.barrier()
dist.destroy_process_group()
"""


@test
def what_torch_throws_through_our_functions_reaches_the_program(place):
    seen, found = twice(place, THROWS, ranks=2, env={"LOCKSTEP_GLOO": "c"})
    equal((seen.status, seen.err), ([0, 0], ["", ""]))
    assert seen.out[0].count("tensor([2., 2., 2.])") == 1 and "None" not in seen.out[0].splitlines()[0], seen.out[0]
    for ring in found:  # two backwards, and the one that was not refused
        equal([op.bytes for op in ring.ops() if op.stream], [288, 12, 288])
        equal({op.end is not None for op in ring.ops()}, {True})


@test
def a_torch_that_was_not_tested_is_left_to_python(place):
    script = """
import os, torch, torch.distributed as dist
from torch import nn
torch.__version__ = "%s"
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("../store"), rank=0, world_size=1)
from lockstep import _gloo
net = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
net(torch.ones(2, 8)).sum().backward()
print(dist.group.WORLD in _gloo.gloo.groups)
del net
dist.destroy_process_group()
"""
    cases = (("1.13.0a0", None, True), ("2.6.0+debian", None, True), ("2.6.1", "", True), ("2.60.0", None, False),
             ("12.6", None, False), ("3.0.0", None, False), ("main", None, False), ("3.0.0", "c", True),
             ("1.13.1", "python", False))
    for number, (version, wish, expected) in enumerate(cases):
        at = os.path.join(place, str(number))
        os.mkdir(at)
        seen, (ring,) = attached(at, script % version, env={"LOCKSTEP_GLOO": wish, "LOCKSTEP_DEBUG": "1"})
        equal((seen.status, seen.out), ([0], ["%s\n" % expected]), (version, wish, seen.err))
        equal("not tested with torch %s" % version in seen.err[0], not expected and wish is None, seen.err)
        equal([op.op for op in ring.ops() if op.stream], ["all_reduce"])


main()
