"""Hooks on parallel models: DistributedDataParallel, FSDP.

DDP's reducer is C++ and calls its process group from there.  It is given a group of ours that passes
everything on to the real one and marks it.  So nothing of the arithmetic changes, and a communication
hook of the program, registered whenever, is what runs: the reducer does not know of us.

Our group's methods are Python, called in the middle of a backward.  Python would handle a signal that
came meanwhile right there, and the exception of its handler (Ctrl-C) would come out of backward as
a RuntimeError.  Without us it is handled after backward; so we have it handled then.
"""
import _signal  # what signal's functions call, without turning each number into an enum: 30 of them a backward
import collections
import contextlib
import os
import signal
import sys
import threading
import time
import weakref

from . import _abi, _collectives, _torch
from ._groups import groups, is_data_parallel
from ._loop import loop
from ._probe import complain, probe
from ._wrap import unseen, wraps

speaks_in_backward = False  # there is a reducer with a group of ours


# ---- signals ----

def _handled():
    """Signals with a handler of the program, or Python's own for Ctrl-C."""
    return [(number, handler) for number, handler in
            ((number, _signal.getsignal(number)) for number in _SIGNALS) if callable(handler)]


_SIGNALS = [int(number) for number in signal.valid_signals()
            if number not in (signal.SIGKILL, signal.SIGSTOP) and number < 32]


@contextlib.contextmanager
def signals_after():
    """What comes meanwhile is handled at the end, as it is around any call into C++."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = []

    def later(number, frame):
        came.append((number, frame))

    handled = _handled()
    try:
        for number, _ in handled:  # Ctrl-C is the first to be put off
            _signal.signal(number, later)
        yield
    finally:
        for number, handler in reversed(handled):  # and the last to be taken again
            if _signal.getsignal(number) is later:
                _signal.signal(number, handler)
        table = dict(handled)
        for number, frame in came:
            table[number](number, frame)


# ---- the reducer's group ----

class _Buckets:
    """What was launched in this backward and has not been seen to be over.

    Its future could tell, but in gloo's thread, which would then need the interpreter's lock: that
    costs several times what the op itself does.  So they are looked at when the next one is launched,
    and when backward is over: then the reducer has waited for all of them.  Where neither comes, as in
    a job that hangs, a thread looks now and then.
    """

    PERIOD_S = 0.5

    def __init__(self):
        self.open = collections.deque()  # (work, communicator, key), oldest first
        self.looking = threading.Lock()
        self.wanted = threading.Event()
        self.thread = None

    def begin(self):
        """The first of a backward."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._watch, name="lockstep", daemon=True)
            self.thread.start()
        if not self.wanted.is_set():
            self.wanted.set()

    def look(self):
        if not self.looking.acquire(False):
            return
        try:
            while self.open and self.open[0][0].is_completed():
                self._end()
        finally:
            self.looking.release()

    def over(self):
        with self.looking:
            while self.open:
                self._end()

    def _end(self):
        _, comm, key = self.open.popleft()
        handle = probe.handle
        if handle:
            probe.library.coll_end(handle, comm, key, 0)

    def _watch(self):
        while True:
            self.wanted.wait()
            time.sleep(self.PERIOD_S)
            if self.open:
                self.look()
            else:
                self.wanted.clear()


_buckets = _Buckets()
backward_is_over = _buckets.over


_held = weakref.WeakKeyDictionary()  # reducer: our group, which must live as long


class _Widths(dict):
    """torch.dtype: (its number in the ring, bytes of an element)."""

    def __missing__(self, dtype):
        torch = sys.modules["torch"]
        self[dtype] = (_torch.dtypes.get(dtype, _abi.DTYPE_OTHER), torch.empty((), dtype=dtype).element_size())
        return self[dtype]


def _make_class(base):
    original = _collectives.originals["allreduce"]
    number, widths = _abi.OPS["all_reduce"], _Widths()
    opened, append, look, begin = _buckets.open, _buckets.open.append, _buckets.look, _buckets.begin

    class Through(base):
        """A process group that hands everything on."""

        def __init__(self, group):
            base.__init__(self, group.rank(), group.size())
            self.group = group
            self.known, self.comm = 0, -1

        def getBackendName(self):
            # Not "gloo": for that name DDP's logger reads the fields of a ProcessGroupGloo in us.
            return "gloo, watched"

        # Called for every bucket, in the middle of a backward that has just swept the caches: what costs is how
        # many different things are touched, so nothing is called here that can be known before.
        def allreduce(self, tensors, options):
            handle = probe.handle
            if handle != self.known:
                self.know(handle, tensors)
            if self.comm < 0:
                return original(self.group, tensors, options)
            tensor = tensors[0]
            dtype, width = widths[tensor.dtype]
            key = self.launch(handle, self.comm, number, tensor.numel() * width, self.stream, dtype)
            try:
                work = original(self.group, tensors, options)
            except BaseException:
                probe.library.coll_end(handle, self.comm, key, 0)
                raise
            if opened:
                look()
            else:
                begin()
            append((work, self.comm, key))
            return work

        def know(self, handle, tensors):
            """At the first bucket, and again with another ring.  All of a reducer's buckets are on one kind of device."""
            here = handle and len(tensors) == 1 and tensors[0].is_cpu
            self.comm = groups.handle(self.group) if here else -1
            self.stream = _collectives.BUCKET_STREAM + max(self.comm, 0)
            self.launch = here and probe.library.coll_launch
            self.known = handle

        def broadcast(self, *args):
            return self.group.broadcast(*args)

        def allgather(self, *args):
            return self.group.allgather(*args)

        def reduce_scatter(self, *args):
            return self.group.reduce_scatter(*args)

        def barrier(self, *args):
            return self.group.barrier(*args)

    return Through


def _hook_reducer(package):
    original = package.Reducer
    through = _make_class(package.ProcessGroup)

    @unseen
    def make(*args, **kwargs):
        global speaks_in_backward
        ours = None
        try:
            if probe.handle and _is_gloo(args[3]) and groups.handle(args[3]) >= 0:
                ours = through(args[3])
        except Exception as error:
            complain("buckets are not recorded: %r" % (error,))
        if ours is None:
            return original(*args, **kwargs)
        reducer = original(*args[:3], ours, *args[4:], **kwargs)
        _held[reducer] = ours
        speaks_in_backward = True
        return reducer

    class Same(type):
        """Whoever asks whether something is a Reducer gets the true answer."""

        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, original)

        @unseen
        def __call__(cls, *args, **kwargs):
            return make(*args, **kwargs)

    package.Reducer = Same("Reducer", (), {"__module__": original.__module__, "__doc__": original.__doc__})


def _is_gloo(group):
    return sys.modules["torch.distributed.distributed_c10d"].get_backend(group) == "gloo"


def _hook_buffers(package):
    """Buffers are sent from rank 0 in one call that returns when it is done."""
    original = package._broadcast_coalesced
    op = _abi.OPS["broadcast"]

    @wraps(original)
    def _broadcast_coalesced(group, tensors, *args, **kwargs):
        handle = probe.handle
        comm = -1
        if handle and not _torch.compiling():
            size, dtype = _collectives.measure(tensors)
            comm = -1 if size is None else groups.handle(group)
        if comm < 0:
            return original(group, tensors, *args, **kwargs)
        key = probe.library.coll_launch(handle, comm, op, size, 0, dtype)
        try:
            return original(group, tensors, *args, **kwargs)
        finally:
            probe.library.coll_end(handle, comm, key, 0)

    package._broadcast_coalesced = _broadcast_coalesced


# ---- models ----

def _hook_model(kind, replicas=False):
    original_forward, original_init = kind.forward, kind.__init__

    @wraps(original_forward)
    def forward(self, *args, **kwargs):
        if not _torch.compiling() and loop.awake():
            loop.root_forward(self.training)
        return original_forward(self, *args, **kwargs)

    @wraps(original_init)
    def __init__(self, *args, **kwargs):
        original_init(self, *args, **kwargs)
        try:
            if probe.handle and getattr(self, "process_group", None) is not None:
                is_data_parallel(self.process_group)
        except Exception as error:
            complain("layout: %r" % (error,))
        if replicas and probe.handle and os.environ.get("LOCKSTEP_REPLICAS") == "1":
            _watch_replicas(self.module)

    kind.forward, kind.__init__ = forward, __init__


def _watch_replicas(model):
    """Parameters under DDP are equal on all its ranks; one model a process is watched, the first."""
    from . import _replicas
    try:
        if not _replicas.watching():
            _replicas.watch([one for one in model.parameters() if one.requires_grad])
    except Exception as error:
        complain("replicas are not watched: %r" % (error,))


def hook_ddp(module):
    _hook_model(module.DistributedDataParallel, replicas=True)
    package = sys.modules["torch.distributed"]
    _hook_reducer(package)
    _hook_buffers(package)


def hook_fsdp(module):
    _hook_model(module.FullyShardedDataParallel)


def hook_fsdp2(module):
    """fully_shard() has no class of its own; the state of its root is asked before each forward."""
    state = module.FSDPState
    original = state._root_pre_forward

    @wraps(original)
    def _root_pre_forward(self, module, *args, **kwargs):
        if not _torch.compiling() and loop.awake() \
                and getattr(self._state_ctx, "iter_forward_root", None) is None:
            loop.root_forward(module.training)
        return original(self, module, *args, **kwargs)

    state._root_pre_forward = _root_pre_forward
