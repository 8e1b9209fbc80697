# SPDX-License-Identifier: Apache-2.0
"""When the device gets where: stamps on the stream that computes.

Steps and phases are stamped by the C half of their marks (src/probe/probe_python.c).  Here stamps are switched on once the
program has a CUDA context, and put around what the stream waits for: operations that the caller waits for, works, events,
DistributedDataParallel's last wait in a backward.  Where the host waits for its device inside torch, src/probe/host_wait.c
puts one.  A stamp never waits for the device.

LOCKSTEP_STAMPS=off: none; then the host's times stand for the work.
"""
import ctypes
import errno
import os
import sys

from . import _torch
from ._fast import fast
from ._probe import complain, probe
from ._steps import steps
from ._wrap import wraps

WAIT_BEGIN, WAIT_END = 4, 5  # enum ring_stamp_what


class Stamps:
    def __init__(self):
        self.stamp = None  # the builtin, while stamps are on
        self.stream = None  # tells the current stream of the device
        self.reducers = 0  # of DistributedDataParallel, on a device
        self.waiting = False  # in the last wait of a backward
        self.capturing = False  # a graph: not now (_graphs.py)
        if os.environ.get("LOCKSTEP_STAMPS") != "off":
            probe.on_open.append(self._opened)
        probe.on_close.append(self._closed)

    def _opened(self):
        if self.try_open not in steps.at_begin:
            steps.at_begin.append(self.try_open)

    def _closed(self):
        self.stamp = None
        probe.library.host_waits(None)

    def try_open(self):
        """Called before each step begins, until there is a CUDA context, or never will be one."""
        try:
            if self._open():
                steps.at_begin.remove(self.try_open)
        except Exception as error:
            steps.at_begin.remove(self.try_open)
            complain("no stamps: %r" % (error,))

    def _open(self):
        """False: not yet."""
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        stream_of = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
        if cuda is None or stream_of is None or getattr(torch.version, "hip", None):
            return True
        if not cuda.is_initialized() or self.capturing:
            return False
        device = cuda.current_device()
        stream_of(device)
        library = ctypes.CDLL("libcuda.so.1", os.RTLD_NOLOAD | os.RTLD_NOW)
        find = ctypes.cast(ctypes.CDLL(None).dlsym, ctypes.c_void_p).value
        why = ctypes.create_string_buffer(200)
        result = probe.library.stamps_use(probe.handle, find, library._handle, why, len(why))
        if result == -errno.EAGAIN:
            return False
        if result < 0 or not fast.use():
            raise RuntimeError(why.value.decode("utf-8", "replace"))
        fast.builtin("stamp_stream")(stream_of, (device,))
        if probe.library.host_waits(find) == 0:
            complain("waits for the device inside torch are not stamped: no calls of the CUDA runtime found")
        self.stream = lambda: stream_of(device)
        self.stamp = fast.builtin("stamp")
        return True

    # ---- the last wait of DistributedDataParallel: in C++, after all that is computed in a backward ----

    def backward_begin(self, of):
        """A callback that is queued as soon as the backward has begun runs before the reducer's own.  What it is to be
        taken away with, or None."""
        if self.stamp is None or not self.reducers:
            return None
        try:
            loss = of[0] if isinstance(of, (tuple, list)) else of
            compiled = sys.modules.get("torch._dynamo.compiled_autograd")
            if getattr(compiled, "compiled_autograd_enabled", False) or not loss.requires_grad:
                return None
            return loss.register_hook(self._queue)
        except Exception as error:
            complain("the end of a backward is not stamped: %r" % (error,))
            self.reducers = 0
            return None

    def _queue(self, _):
        try:
            sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(self._computed)
        except Exception as error:
            complain("the end of a backward is not stamped: %r" % (error,))
            self.reducers = 0

    def _computed(self):
        stamp = self.stamp
        if stamp is not None:
            self.waiting = True
            stamp(WAIT_BEGIN)

    def backward_end(self, handle):
        handle.remove()
        stamp = self.stamp
        if self.waiting and stamp is not None:
            stamp(WAIT_END)
        self.waiting = False


stamps = Stamps()


def _around(original, wanted):
    """The stream waits inside this function, for all that `wanted` says so of."""

    @wraps(original)
    def around(*args, **kwargs):
        stamp = stamps.stamp
        if stamp is None or _torch.compiling() or not wanted(args[0] if args else None):
            return original(*args, **kwargs)
        stamp(WAIT_BEGIN)
        try:
            return original(*args, **kwargs)
        finally:
            stamp(WAIT_END)

    return around


def hook_streams(module):
    """FSDP, of whichever kind, lets the stream wait for events of its own streams."""
    kind = module.Stream
    kind.wait_event = _around(kind.wait_event, lambda stream: stream.cuda_stream == stamps.stream())


def hook_functional(module):
    """Functional collectives, and with them DTensor."""
    module.wait_tensor = _around(module.wait_tensor, lambda tensor: getattr(tensor, "is_cuda", False))
