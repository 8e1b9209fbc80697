# SPDX-License-Identifier: Apache-2.0
"""Buckets of DistributedDataParallel where C does not see them (_gloo.py): the reducer is given a process group that
passes everything on to the real one, and marks them.  And when ends are looked for, whoever marked the launch.

torch's way into Python and back costs several times what a mark does, so this is for what C refuses: a group of
another class, as in torch's debug mode, another processor, an interpreter without a C half.  Both leave the same records.
"""
import collections
import sys
import threading
import time

from . import _abi, _collectives, _signals, _torch
from ._ends import in_child, watch, works
from ._gloo import STREAM, gloo
from ._groups import groups
from ._probe import probe
from ._wrap import unseen


class Buckets:
    """What was launched in this backward and has not been seen to be over.

    Ends are looked for when the next one is launched, and when backward is over: then the reducer has waited for
    all of them.  Where neither comes, as in a job that hangs, a thread looks now and then (_ends.py); it does so
    for C, too.
    """

    LOOK_AFTER_NS = works.LOOK_AFTER_NS

    def __init__(self):
        self.looked = 0
        self._reset()
        in_child(self._reset)
        watch.looks.append(self.look)
        watch.looks.append(_look_in_c)

    def _reset(self):
        self.open = collections.deque()  # (work, communicator, key, turn) of those launched by Python, oldest first
        self.looking = threading.Lock()

    def look_again(self):
        now = time.monotonic_ns()
        if now - self.looked >= self.LOOK_AFTER_NS:
            self.looked = now
            self.look()

    def look(self):
        if self.looking.acquire(False):
            try:
                while self.open and self.open[0][0].is_completed():
                    self._end()
            finally:
                self.looking.release()
        return self.open

    def over(self):
        if gloo.over is not None:
            gloo.over()
        if self.open:
            with self.looking:
                while self.open:
                    self._end()
        if works.open:  # of a communication hook
            works.look_at_all()

    def close(self):
        """The ring is about to be closed: what is not over by now has no end in it."""
        self.look()
        self.open.clear()

    def _end(self):
        _, comm, key, turn = self.open.popleft()
        if turn == probe.turn and probe.handle:
            probe.library.coll_end(probe.handle, comm, key, 0)


def _look_in_c():
    return gloo.look()


buckets = Buckets()
probe.on_close.append(buckets.close)


@unseen
def run_backward(original, args, kwargs):
    """Where C sees all buckets."""
    watch.begin()
    result = original(*args, **kwargs)
    buckets.over()
    return result


@unseen
def run_backward_aloud(original, args, kwargs):
    """Where a method in Python is called in the middle of it."""
    return _signals.after(run_backward, original, args, kwargs)


class _Widths(dict):
    """torch.dtype: (its number in the ring, bytes of an element)."""

    def __missing__(self, dtype):
        torch = sys.modules["torch"]
        self[dtype] = (_torch.dtypes.get(dtype, _abi.DTYPE_OTHER), torch.empty((), dtype=dtype).element_size())
        return self[dtype]


def _passing(name):
    original = _collectives.originals[name]

    def method(self, *args):
        return original(self.group, *args)

    method.__name__ = name
    return method


def make_class(base):
    """Through, below torch's ProcessGroup."""
    original = _collectives.originals["allreduce"]
    number, widths = _abi.OPS["all_reduce"], _Widths()

    class Through(base):
        """A process group that hands everything on."""

        def __init__(self, group):
            base.__init__(self, group.rank(), group.size())
            self.group = group
            self.known, self.comm = 0, -1  # the turn of the probe in which comm is a place in its ring

        def getBackendName(self):
            # Not "gloo": for that name DDP's logger reads the fields of a ProcessGroupGloo in us.
            return "gloo, watched"

        def allreduce(self, tensors, options):
            turn = probe.turn
            if turn != self.known:
                self.know(turn, tensors)
            if self.comm < 0:
                return original(self.group, tensors, options)
            tensor = tensors[0]
            dtype, width = widths[tensor.dtype]
            key = self.launch(probe.handle, self.comm, number, tensor.numel() * width, self.stream, dtype)
            try:
                work = original(self.group, tensors, options)
            except BaseException:
                probe.library.coll_end(probe.handle, self.comm, key, 0)
                raise
            if buckets.open:
                buckets.look_again()
            else:
                watch.begin()
            buckets.open.append((work, self.comm, key, turn))
            return work

        def know(self, turn, tensors):
            """At the first bucket, and again with another ring.  All of a reducer's buckets are on one kind of device."""
            handle = probe.handle
            here = handle and len(tensors) == 1 and tensors[0].is_cpu
            self.comm = groups.handle(self.group) if here else -1
            self.stream = STREAM + max(self.comm, 0)
            self.launch = here and probe.library.coll_launch
            self.known = turn

        # What else a reducer asks for, and C does not see, is not recorded here, either: counts must be those of
        # the other ranks.
        broadcast, allgather, reduce_scatter, barrier = map(
            _passing, ("broadcast", "allgather", "reduce_scatter", "barrier"))

    return Through
