"""The process group that DDP's reducer is given: it passes everything on to the real one, and marks buckets.

Each bucket comes here in the middle of a backward that has just swept the caches: what costs is how many different
things are touched.  So from a reducer's second backward on the C half (_fast.py) takes those it knows.  The method in
Python is for all others, and for interpreters without a C half; both leave the same records.
"""
import collections
import sys
import threading
import time

from . import _abi, _collectives, _signals, _torch
from ._fast import Calls, fast
from ._groups import groups
from ._probe import complain, probe
from ._wrap import unseen


class Buckets:
    """What was launched in this backward and has not been seen to be over.

    Its future could tell, but in gloo's thread, which would then need the interpreter's lock: that
    costs several times what the op itself does.  So they are looked at when the next one is launched,
    and when backward is over: then the reducer has waited for all of them.  Where neither comes, as in
    a job that hangs, a thread looks now and then.
    """

    PERIOD_S = 0.5

    def __init__(self):
        self.open = collections.deque()  # (work, communicator, key, turn) of those launched by Python, oldest first
        self.looking = threading.Lock()
        self.wanted = threading.Event()
        self.thread = None
        self.backwards = 0  # that are over, of those that C does not count

    def begin(self):
        """A backward begins, or the first bucket of one that nobody saw beginning."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._watch, name="lockstep", daemon=True)
            self.thread.start()
        if not self.wanted.is_set():
            self.wanted.set()
        fast.awake(True)

    def add(self, one):
        self.open.append(one)
        fast.has_others()

    def look(self):
        if not self.looking.acquire(False):
            return
        try:
            while self.open and self.open[0][0].is_completed():
                self._end()
        finally:
            self.looking.release()

    def over(self):
        self.backwards += 1
        fast.over()
        self.end_all()

    def end_all(self):
        """What Python has launched."""
        if self.open:
            with self.looking:
                while self.open:
                    self._end()

    def _end(self):
        _, comm, key, turn = self.open.popleft()
        if turn == probe.turn and probe.handle:
            probe.library.coll_end(probe.handle, comm, key, 0)

    def _watch(self):
        while True:
            self.wanted.wait()
            time.sleep(self.PERIOD_S)
            if self.open or fast.waiting():
                self.look()
                fast.look()
            else:
                self.wanted.clear()
                fast.awake(False)
                time.sleep(self.PERIOD_S)
                if self.open or fast.waiting():  # began in between, and took us to be awake
                    self.wanted.set()


buckets = Buckets()
fast.wake, fast.end_others = buckets.begin, buckets.end_all


@unseen
def run_backward(original, args, kwargs):
    return _signals.after(fast.backward or _run_backward, original, args, kwargs)


@unseen
def _run_backward(original, args, kwargs):
    """fast.backward() in Python."""
    buckets.begin()
    result = original(*args, **kwargs)
    buckets.over()
    return result


class _Widths(dict):
    """torch.dtype: (its number in the ring, bytes of an element)."""

    def __missing__(self, dtype):
        torch = sys.modules["torch"]
        self[dtype] = (_torch.dtypes.get(dtype, _abi.DTYPE_OTHER), torch.empty((), dtype=dtype).element_size())
        return self[dtype]


def make_class(base, is_completed):
    """Through, below torch's ProcessGroup; is_completed is that of its Work."""
    original = _collectives.originals["allreduce"]
    number, widths = _abi.OPS["all_reduce"], _Widths()
    opened, add, look, begin = buckets.open, buckets.add, buckets.look, buckets.begin

    class Through(base):
        """A process group that hands everything on."""

        def __init__(self, group):
            base.__init__(self, group.rank(), group.size())
            self.group = group
            self.known, self.comm = 0, -1  # the turn of the probe in which comm is a place in its ring
            self.met = self.learnt = None  # backwards: of the first bucket, and when C last learnt one
            self.calls = None
            if fast.ready(is_completed):
                self._use_c()

        def _use_c(self):
            try:
                self.calls = Calls(self, Through.allreduce, original, self.group)
                self.allreduce = self.calls.call
            except Exception as error:
                complain("buckets are marked by Python: %r" % (error,))
                self.calls = None

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
            size = tensor.numel() * width
            key = self.launch(probe.handle, self.comm, number, size, self.stream, dtype)
            try:
                work = original(self.group, tensors, options)
            except BaseException:
                probe.library.coll_end(probe.handle, self.comm, key, 0)
                raise
            if opened:
                look()
            else:
                begin()
            add((work, self.comm, key, turn))
            if self.calls is not None:
                self.learn(tensor, size, dtype)
            return work

        def know(self, turn, tensors):
            """At the first bucket, and again with another ring.  All of a reducer's buckets are on one kind of device."""
            handle = probe.handle
            here = handle and len(tensors) == 1 and tensors[0].is_cpu
            self.comm = groups.handle(self.group) if here else -1
            self.stream = _collectives.BUCKET_STREAM + max(self.comm, 0)
            self.launch = here and probe.library.coll_launch
            self.known = turn
            if self.calls is not None:
                self.calls.place(handle, self.comm, self.stream)

        def learn(self, tensor, size, dtype):
            """Has C know a bucket by its tensor, which is held for that.

            Not before the second backward: after its first one the reducer settles which gradients go together,
            and lets go of the tensors it had.  Holding those would be memory that the program does not have without us.
            """
            now, calls = buckets.backwards + fast.backwards(), self.calls
            if calls.knows(tensor):  # there was another reason not to take it
                return
            if self.met is None:
                self.met = now
            elif self.learnt is not None and now > self.learnt:  # they are others now
                calls.forget()
                self.met, self.learnt = now, None
            elif now > self.met:
                calls.learn(tensor, size, dtype)
                self.learnt = now

        def broadcast(self, *args):
            return self.group.broadcast(*args)

        def allgather(self, *args):
            return self.group.allgather(*args)

        def reduce_scatter(self, *args):
            return self.group.reduce_scatter(*args)

        def barrier(self, *args):
            return self.group.barrier(*args)

    return Through
