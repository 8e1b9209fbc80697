# SPDX-License-Identifier: Apache-2.0
"""A program that ends while an operation is open ends as it would without lockstep: status, output, core dumps.

By default a part of the cases, in which each operation and each way to end occurs; LOCKSTEP_EXIT_CASES=all runs
every operation with every way to end, LOCKSTEP_EXIT_RUNS=N each of them N times attached.
"""
import os

import exits
from tap import equal, main, need_torch, test
from twice import attached, twice

need_torch()
exits.allow_dumps()

RUNS = int(os.environ.get("LOCKSTEP_EXIT_RUNS", "1"))
CASES = exits.SOME
if os.environ.get("LOCKSTEP_EXIT_CASES") == "all":
    CASES = exits.ALL
bare = {case: exits.Ways() for case in CASES}  # variables of ours change nothing without lockstep: seen once, known for all


def add(case, env=None):
    def compare(place):
        compared = exits.Compared(place, case, env, RUNS, bare[case])
        print("# %s: without lockstep %s, attached %s, %d runs" % (case, *compared.statuses, compared.number), flush=True)
        assert compared.same, compared.difference()

    words = "%s open, then %s%s" % (*case, "".join(", %s=%s" % pair for pair in (env or {}).items()))
    compare.__name__ = words.replace(" ", "_")
    test(compare)


LAST = """
import atexit, gc, os, sys, threading, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
net = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
net(torch.ones(2, 8)).sum().backward()
held = dist.all_reduce(torch.ones(3000000), async_op=True)
dist.all_reduce(torch.ones(3000000), async_op=True)
message = dist.isend(torch.ones(3), 1 - dist.get_rank()), dist.irecv(torch.ones(3), 1 - dist.get_rank())
from lockstep import _collectives, _ends, _probe
thread = _ends.watch.thread
print(thread.is_alive(), bool(_probe.probe.handle), len(_collectives._pending.ops))
class Last:
    # Destroyed with the variables of the program, when all functions registered at exit have run.
    def __del__(self, thread=thread, works=_ends.works, pending=_collectives._pending, probe=_probe.probe, callbacks=gc.callbacks,
                write=os.write, text=str):
        write(1, (text([thread.is_alive(), probe.open(), probe.open(0, 2), probe.handle, works.open, pending.ops,
                        [one.__module__ for one in callbacks if "lockstep" in one.__module__]]) + "\\n").encode())
last = Last()
"""


@test
def everything_of_ours_is_stopped_before_python_finalizes(place):
    for way in "c", "python":
        at = os.path.join(place, way)
        os.mkdir(at)
        seen, found = attached(at, LAST, ranks=2, env={"LOCKSTEP_GLOO": way, "PYTHONUNBUFFERED": "1"})
        equal((seen.status, seen.err), ([0, 0], ["", ""]), seen.out)
        equal(seen.out, ["True True 2\n[False, False, False, None, {}, {}, []]\n"] * 2)
        equal([ring.closed for ring in found], [1, 1])


@test
def functions_of_the_program_at_exit_work_as_ever(place):
    seen, found = twice(place, """
import atexit, torch, torch.distributed as dist
dist.init_process_group("gloo")
def last():
    t = torch.ones(1000)
    work = dist.all_reduce(t, async_op=True)
    work.wait()
    dist.all_reduce(t)
    print(t.sum().item())
    dist.destroy_process_group()
atexit.register(last)
""", ranks=2)
    equal((seen.status, seen.out), ([0, 0], ["4000.0\n"] * 2), seen.err)
    for ring in found:
        equal([(op.op, op.end is not None) for op in ring.ops()], [("all_reduce", True)] * 2)


@test
def a_wait_that_gives_up_is_no_end(place):
    seen, found = attached(place, """
import os, time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(8))
flag = "../gave-up"
if rank == 1:
    while not os.path.exists(flag): time.sleep(0.01)
work = dist.all_reduce(torch.ones(8), async_op=True)
if rank == 0:
    try:
        work.wait(timedelta(milliseconds=100))
    except RuntimeError:
        print(time.monotonic_ns())
    open(flag, "w").close()
work.wait()
del work
dist.barrier()
dist.destroy_process_group()
""", ranks=2)
    equal(seen.status, [0, 0], seen.err)
    op = [op for op in found[0].ops() if op.stream][0]
    assert op.end > int(seen.out[0]), (op, seen.out)


for one in CASES:
    add(one)
for one in CASES:
    if one[0].startswith("bucket"):
        add(one, {"LOCKSTEP_GLOO": "python"})
main()
