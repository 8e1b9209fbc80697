# SPDX-License-Identifier: Apache-2.0
"""Hooks on torch.distributed: start-up of groups, and what is sent through them.

All of torch's Python functions (all_reduce, isend, all_gather_object …) come through the methods of
one class, ProcessGroup, so these are wrapped and not the functions: whoever imported a function
early is seen, and torch.compile still recognises them.  What C++ calls on a group directly is not
seen here; _ddp.py has the buckets of DistributedDataParallel.  What comes through here is not recorded there.

Recorded are ops on tensors in host memory, which the host itself runs (gloo, MPI).  An op on a device
ends when the device says so, and asking it would mean to wait: that is not for Python.

An op whose caller waits at once lies on the host's line (stream 0) and ends with wait(); one that runs
beside the caller lies on a line of its group and ends with wait(), or when it is seen to be over (_ends.py).
"""
import sys
import threading
import weakref

from . import _abi, _torch, _warm
from ._ends import Op, is_over, works
from ._gloo import gloo
from ._groups import groups
from ._loop import COMM_INIT, loop
from ._probe import complain, probe
from ._stamps import WAIT_BEGIN, WAIT_END, stamps
from ._wrap import unseen, wraps

ASYNC_STREAM = _abi.HOST_LATE + 64  # plus the communicator's place; those before it are of buckets
P2P_STREAM = _abi.HOST_THREADS + 64
_get_ident = threading.get_ident


_dtypes = _torch.dtypes
NOT_HERE = None, _abi.DTYPE_UNKNOWN
NOTHING = 0, _abi.DTYPE_UNKNOWN


def measure(value):
    """(bytes, type of the elements) of a tensor, or of lists of them; NOT_HERE when one is not in host memory."""
    if isinstance(value, (list, tuple)):
        total, common = NOTHING
        for one in value:
            size, dtype = measure(one)
            if size is None:
                return NOT_HERE
            total += size
            if dtype != common:
                common = dtype if not common else common if not dtype else _abi.DTYPE_MIXED
        return total, common
    if not isinstance(value, _torch.Tensor):
        return NOTHING
    if not value.is_cpu:
        return NOT_HERE
    return value.numel() * value.element_size(), _dtypes.get(value.dtype, _abi.DTYPE_OTHER)


# Method of ProcessGroup: op, and which argument says how much data all members handle together.
_COLLECTIVES = {
    "allreduce": ("all_reduce", 0, "tensors"),
    "allreduce_coalesced": ("all_reduce", 0, "tensors"),
    "broadcast": ("broadcast", 0, "tensors"),
    "reduce": ("reduce", 0, "tensors"),
    "allgather": ("all_gather", 0, "output_tensors"),
    "allgather_coalesced": ("all_gather", 0, "output_lists"),
    "allgather_into_tensor_coalesced": ("all_gather", 0, "outputs"),
    "_allgather_base": ("all_gather", 0, "output"),
    "gather": ("gather", 1, "input_tensors"),
    "scatter": ("scatter", 0, "output_tensors"),
    "reduce_scatter": ("reduce_scatter", 1, "input_tensors"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1, "inputs"),
    "_reduce_scatter_base": ("reduce_scatter", 1, "inputTensor"),
    "alltoall": ("all_to_all", 1, "input_tensors"),
    "alltoall_base": ("all_to_all", 1, "input"),
    "all_gather_single": ("all_gather", 0, "output"),
    "reduce_scatter_single": ("reduce_scatter", 1, "input"),
    "all_to_all_single": ("all_to_all", 1, "input"),
    "barrier": ("barrier", None, None),
    "monitored_barrier": ("barrier", None, None),
}
_MESSAGES = {"send": "send", "recv": "recv"}


# ---- the end of an op ----

class _Pending:
    """Ops that end with their work, by its address: a caller waits for it, or has dropped it.

    Of ops whose caller waits at once, and of messages: gloo gives up a message that no caller holds any more.
    """

    def __init__(self):
        self.ops = {}
        probe.on_close.append(self.ops.clear)  # with them go the weak references, and what these would call

    def add(self, work, op):
        name = id(work)
        ops = self.ops

        def dead(_):
            if ops.pop(name, None) is not None:
                op()

        ops[name] = (weakref.ref(work, dead), op)

    def done(self, work):
        entry = self.ops.pop(id(work), None)
        if entry is not None:
            entry[1]()


_pending = _Pending()


def hook_work(work):
    original = work.wait

    @unseen
    def on_stream(stamp, self, args, kwargs):
        stamp(WAIT_BEGIN)
        try:
            return original(self, *args, **kwargs)
        finally:
            stamp(WAIT_END)

    @wraps(original)
    def wait(self, *args, **kwargs):
        if not _pending.ops and not works.open:
            stamp = stamps.stamp
            if stamp is not None and not _torch.compiling():
                return on_stream(stamp, self, args, kwargs)
            return original(self, *args, **kwargs)
        over = None
        try:
            result = original(self, *args, **kwargs)
            over = True
            return result
        finally:
            if over or is_over(self) is not False:  # whoever gave up waiting has not seen the end
                _pending.done(self)
                works.done(self)

    work.wait = wait


# ---- collectives ----

def _waits(frame):
    """Does the function of torch.distributed that called the group wait for the op before it returns?

    Asking a frame for its variables makes a dictionary that holds them all for as long as the frame lives.  So only
    frames of torch's own are asked: they end with the call, and what they hold their caller holds, too.
    """
    if "async_op" not in frame.f_code.co_varnames or not _is_torchs(frame):
        return False
    return frame.f_locals.get("async_op") is False


def _is_torchs(frame):
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith("torch.distributed.")


class _InC:
    """Ends an op that C watches; while there is a work to be asked, C has not seen its end."""

    __slots__ = ("done", "pointer")

    def __init__(self, done, pointer):
        self.done, self.pointer = done, pointer

    def __call__(self):
        self.done(self.pointer)


def _beside(group, work, op):
    """Nobody waits for it here."""
    pointer = gloo.follow(group, work, op.comm, op.key)
    if pointer is None:
        works.hold(work, op)
    else:
        works.add(work, _InC(probe.library.gloo_done, pointer))


@unseen
def on_device(original, group, args, kwargs, waits=False):
    """An op that the device runs, and NCCL records; the first of a group makes its communicator."""
    first = groups.hint_begin(group)
    stamp = stamps.stamp if waits else None
    if stamp is not None:
        stamp(WAIT_BEGIN)
    try:
        return original(group, *args, **kwargs)
    finally:
        if stamp is not None:
            stamp(WAIT_END)
        if first:
            groups.hint_end()


def _launcher(name, original):
    """launch(group, stream, args, kwargs): calls the group's method and returns its work.

    stream: 0 where the caller waits, else the communicator's place is added to it.
    """
    op_name, place, keyword = _COLLECTIVES[name]
    number = _abi.OPS[op_name]
    exchanges = name in ("alltoall_base", "all_to_all_single")

    @unseen
    def launch(group, stream, args, kwargs):
        handle = probe.handle
        size, dtype = NOTHING
        if place is not None:
            size, dtype = measure(args[place] if len(args) > place else kwargs.get(keyword))
        elif not _on_host(group):
            size = None
        if size is None:
            if exchanges:
                sizes = args[2] if len(args) > 2 else kwargs.get("output_split_sizes")
                if sizes:
                    loop.exchanged(sum(sizes))
            return on_device(original, group, args, kwargs, stream == 0)
        comm = groups.handle(group)
        if comm < 0:
            return original(group, *args, **kwargs)
        library = probe.library
        key = library.coll_launch(handle, comm, number, size, stream + comm if stream else 0, dtype)
        op = Op(library.coll_end, comm, key)
        try:
            if gloo.aside is None:
                work = original(group, *args, **kwargs)
            else:
                work = gloo.aside(original, (group, *args), kwargs)
        except BaseException:
            op()
            raise
        if works.open:
            works.look_again()
        if work is None:
            op()
        elif stream == 0:
            _pending.add(work, op)
        else:
            _beside(group, work, op)
        return work

    return launch


originals = {}  # by method, for groups of ours that pass calls on


def _wrap_collective(name, original):
    originals[name] = original
    launch = _launcher(name, original)
    blocks = name == "monitored_barrier"  # returns when it is over

    @wraps(original)
    def method(self, *args, **kwargs):
        if not probe.handle or _torch.compiling():
            return original(self, *args, **kwargs)
        waits = blocks or _waits(sys._getframe(1))
        return launch(self, 0 if waits else ASYNC_STREAM, args, kwargs)

    # A group written in Python that does not have this method is asked for it by C++ under its name;
    # only a function of that name is known to be the one that asks.
    method.__code__ = method.__code__.replace(co_name=name)
    return method


def _on_host(group):
    """Of an op without tensors: does the host run it?"""
    try:
        backend = sys.modules["torch.distributed.distributed_c10d"].get_backend(group)
    except Exception:
        return False
    return backend in ("gloo", "mpi")


def _message_waits(frame):
    """Is it torch's send or recv, which wait?  They may call isend and irecv, through a wrapper or two."""
    for _ in range(4):
        if frame is None or not _is_torchs(frame):
            return False
        if frame.f_code.co_name in ("send", "recv"):
            return True
        frame = frame.f_back
    return False


def _wrap_message(name, original):
    op = _abi.OPS[_MESSAGES[name]]

    @wraps(original)
    def method(self, *args, **kwargs):
        handle = probe.handle
        if not handle or _torch.compiling():
            return original(self, *args, **kwargs)
        size, dtype = measure(args[0]) if len(args) > 1 else NOT_HERE
        if size is None:
            return on_device(original, self, args, kwargs)
        comm = groups.handle(self)
        if comm < 0:
            return original(self, *args, **kwargs)
        library = probe.library
        waits = _message_waits(sys._getframe(1))
        stream = 0 if waits else P2P_STREAM + comm
        key = library.p2p_launch(handle, comm, op, args[1], size, stream, dtype)
        message = Op(library.p2p_end, comm, key)
        try:
            work = original(self, *args, **kwargs)
        except BaseException:
            message()
            raise
        if work is None:
            message()
        else:
            _pending.add(work, message)
        return work

    method.__code__ = method.__code__.replace(co_name=name)
    return method


# ---- the life of groups ----

def _rank_of(c10d):
    group = c10d._get_default_group()
    return c10d.get_rank(group), c10d.get_world_size(group)


def _wrap_init(c10d):
    original = c10d.init_process_group

    @wraps(original)
    def init_process_group(*args, **kwargs):
        # Where the launcher said who we are, waiting for the others is seen; else after it.
        _warm.note()
        opened = loop.awake() and probe.handle
        if opened:
            probe.phase_begin(COMM_INIT)
        try:
            return original(*args, **kwargs)
        finally:
            if opened:
                probe.phase_end(COMM_INIT)
            _initialized(c10d)

    return init_process_group


def _initialized(c10d):
    try:
        if c10d.is_initialized():
            groups.forget()
            probe.open(*_rank_of(c10d))
            from . import _found
            _found.from_environment()
    except Exception as error:
        complain("init_process_group: %r" % (error,))


def _expect_group(args, kwargs):
    """A group of a mesh says so; a process that is bound to its device makes the communicator at once."""
    try:
        from . import _found
        members = list(args[0] if args else kwargs.get("ranks") or ())
        kind = _found.kind_of_group(kwargs.get("group_desc"))
        if probe.rank not in members or not kind:
            return False
        groups.kinds.setdefault(tuple(members), kind)
        groups.expect(members, groups.kinds[tuple(members)], kind)
        return True
    except Exception as error:
        complain("new_group: %r" % (error,))
        return False


def _wrap_new_group(original):
    @wraps(original)
    def new_group(*args, **kwargs):
        if not probe.handle or _get_ident() != loop.thread:
            return original(*args, **kwargs)
        probe.phase_begin(COMM_INIT)
        expected = _expect_group(args, kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            probe.phase_end(COMM_INIT)
            if expected:
                groups.hint_end()

    return new_group


def _replace(c10d, name, wrapper):
    original = getattr(c10d, name)
    setattr(c10d, name, wrapper)
    package = sys.modules.get("torch.distributed")
    if getattr(package, name, None) is original:
        setattr(package, name, wrapper)


def hook_c10d(c10d):
    if not hasattr(c10d, "ProcessGroup"):  # torch built without it
        return
    for name in _COLLECTIVES:
        original = getattr(c10d.ProcessGroup, name, None)
        if original is not None:
            setattr(c10d.ProcessGroup, name, _wrap_collective(name, original))
    for name in _MESSAGES:
        setattr(c10d.ProcessGroup, name, _wrap_message(name, getattr(c10d.ProcessGroup, name)))
    from torch._C._distributed_c10d import Work
    hook_work(Work)
    _replace(c10d, "init_process_group", _wrap_init(c10d))
    _replace(c10d, "new_group", _wrap_new_group(c10d.new_group))
