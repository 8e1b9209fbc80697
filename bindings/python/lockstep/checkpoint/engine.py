# SPDX-License-Identifier: Apache-2.0
"""The C interface of checkpoints (include/lockstep/ckpt.h) over ctypes: one engine of one rank."""
import ctypes
import os
import sys

from .. import _abi

SONAME = "liblockstep-ckpt.so.0"
NEWEST = (1 << 64) - 1
STAGES = {"written": 2, "verified": 3, "replicated": 4, "uploaded": 5, "stored": 6}
DTYPES = {
    "bool": 1, "uint8": 2, "int8": 3, "float8_e5m2": 4, "float8_e4m3fn": 5, "float8_e8m0fnu": 6, "float8_e4m3fnuz": 7,
    "float8_e5m2fnuz": 8, "int16": 9, "uint16": 10, "float16": 11, "bfloat16": 12, "int32": 13, "uint32": 14,
    "float32": 15, "complex64": 16, "float64": 17, "int64": 18, "uint64": 19, "complex128": 20,
}
DIMS = 8
POINTS = 4096  # that are listed


class CheckpointError(RuntimeError):
    """A checkpoint cannot be loaded or described."""

    __module__ = "lockstep"


class _Settings(_abi.Sized):
    _fields_ = [("size", ctypes.c_size_t), ("directory", ctypes.c_char_p)] + [
        (name, ctypes.c_uint32) for name in ("rank", "world", "group", "images", "threads", "deadline_s")] + [
        ("job", ctypes.c_uint64), ("bytes_per_s", ctypes.c_uint64), ("keep", ctypes.c_uint32),
        ("no_verify", ctypes.c_uint32), ("agree", ctypes.c_void_p), ("agree_ctx", ctypes.c_void_p),
        ("keep_every", ctypes.c_uint64), ("arena_hold_s", ctypes.c_uint32), ("verify_parts", ctypes.c_uint32),
        ("commit_s", ctypes.c_uint32)]


class _Tensor(_abi.Sized):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_uint32),
                ("dims", ctypes.c_uint32), ("shape", ctypes.c_uint64 * DIMS), ("global_shape", ctypes.c_uint64 * DIMS),
                ("offset", ctypes.c_uint64 * DIMS), ("data", ctypes.c_void_p), ("device", ctypes.c_uint32),
                ("replicas", ctypes.c_uint32), ("replica", ctypes.c_uint32), ("device_index", ctypes.c_uint32),
                ("later", ctypes.c_uint32), ("compare", ctypes.c_uint32)]


class _Status(_abi.Sized):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "saved", "skipped", "cancelled", "failed", "written", "verified", "arena_bytes", "copy_ns", "write_ns",
        "verify_ns", "writer_cpu_ns")] + [("writer_pid", ctypes.c_int32), ("io", ctypes.c_char * 192),
        ("tensors", ctypes.c_uint64), ("unchanged", ctypes.c_uint64), ("pin_wait_ns", ctypes.c_uint64),
        ("fence_wait_ns", ctypes.c_uint64), ("device", ctypes.c_char * 192),
        ("memory_bytes", ctypes.c_uint64), ("compared", ctypes.c_uint64), ("failure", ctypes.c_char * 256)]


class _Spans(_abi.Sized):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint64) for name in (
        "step", "bytes", "copy_ns", "write_ns", "digest_ns", "commit_ns", "verify_ns", "tensors", "unchanged", "moments",
        "moments_unchanged")] + [("disk", ctypes.c_char * 64)]


class _Copies(_abi.Sized):
    _fields_ = [("size", ctypes.c_size_t), ("replicate_ns", ctypes.c_uint64), ("upload_ns", ctypes.c_uint64)]


class _Costs(_abi.Sized):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_double) for name in (
        "save_s", "write_s", "failure_s", "restart_s", "step_s")]


class _Interval(_abi.Sized):
    _fields_ = [("size", ctypes.c_size_t), ("interval_s", ctypes.c_double), ("steps", ctypes.c_uint64)] + [
        (name, ctypes.c_double) for name in ("save_share", "rework_share", "restart_share")] + [
        ("why", ctypes.c_char * 256)]


_HANDLE, _TEXT, _INT, _U64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64
_FUNCTIONS = {
    "open": (_INT, [ctypes.POINTER(_Settings), ctypes.POINTER(_HANDLE), _TEXT, ctypes.c_size_t]),
    "close": (None, [_HANDLE]), "error": (_TEXT, [_HANDLE]),
    "tensor_set": (_INT, [_HANDLE, ctypes.POINTER(_Tensor)]), "tensor_drop": (_INT, [_HANDLE, _TEXT]),
    "blob_set": (_INT, [_HANDLE, _TEXT, _TEXT, ctypes.c_size_t]),
    "blob_get": (ctypes.c_int64, [_HANDLE, _TEXT, ctypes.c_void_p, ctypes.c_size_t]),
    "stream_set": (_INT, [_HANDLE, ctypes.c_uint32, ctypes.c_void_p]),
    "prepare": (_INT, [_HANDLE]), "save_begin": (_INT, [_HANDLE, _U64]), "fence": (_INT, [_HANDLE]),
    "cancel": (_INT, [_HANDLE, _TEXT]), "wait": (_INT, [_HANDLE, _INT, _INT]),
    "status_get": (_INT, [_HANDLE, ctypes.POINTER(_Status)]),
    "spans_get": (_INT, [_HANDLE, ctypes.POINTER(_Spans)]),
    "copies_get": (_INT, [_HANDLE, _U64, ctypes.POINTER(_Copies)]),
    "restore": (_INT, [_HANDLE, _U64, ctypes.POINTER(_U64)]),
    "interval": (_INT, [ctypes.POINTER(_Costs), ctypes.POINTER(_Interval)]),
    "list": (ctypes.c_int64, [_HANDLE, ctypes.POINTER(_U64), ctypes.c_size_t]),
    "refused": (ctypes.c_int64, [_HANDLE, _TEXT, ctypes.c_size_t]), "complete": (_INT, [_HANDLE, _U64]),
}


def _load():
    given = os.environ.get("LOCKSTEP_CKPT_LIBRARY")
    paths = [given] if given else [os.path.join(os.path.dirname(path), SONAME) if os.path.dirname(path) else SONAME
                                   for path in _abi.candidates()]
    why = "not found"
    for path in paths:
        try:
            library = ctypes.CDLL(path)  # gives the interpreter lock away during each call
        except OSError as error:
            why = str(error)
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, "lockstep_ckpt_" + name)
            function.restype, function.argtypes = result, arguments
        return library
    raise CheckpointError("no checkpoint library (%s): %s; LOCKSTEP_CKPT_LIBRARY names one" % (SONAME, why))


def gpu_of(tensor):
    """The number of its GPU if the engine can copy from there, else None."""
    return tensor.device.index if tensor.is_cuda and not getattr(sys.modules["torch"].version, "hip", None) else None


class Part:
    """What a rank has of a tensor, as the engine takes it: contiguous, in main memory or on a GPU.  `later`: it does not change
    before the fence.  `compare`: replicas must be equal bit for bit."""

    def __init__(self, tensor, global_shape=None, offset=None, replicas=0, replica=0, later=False, compare=False):
        self.tensor, self.gpu, self.compare = tensor, gpu_of(tensor), compare
        self.key = (tensor.data_ptr() if tensor.numel() else 0, tuple(tensor.shape), str(tensor.dtype), global_shape,
                    offset, replicas, replica, self.gpu, later, compare)

    def describe(self, name):
        pointer, shape, dtype, global_shape, offset, replicas, replica, gpu, later, compare = self.key
        item = _Tensor(name.encode(), DTYPES[dtype.replace("torch.", "")], len(shape))
        item.shape[:len(shape)] = shape
        if global_shape:
            item.global_shape[:len(shape)], item.offset[:len(shape)] = global_shape, offset
        item.data, item.replicas, item.replica = pointer or None, replicas, replica
        item.later, item.compare = later, compare
        if gpu is not None:
            item.device, item.device_index = 1, gpu
        return item


class Engine:
    """Methods return whether it worked; `error` has the reason if not."""

    def __init__(self, directory, rank=0, world=1, job=0, keep=0, verify=True, group=0, keep_every=0, arena_hold=0,
                 bytes_per_s=0):
        self.library, self._handle, self.error = _load(), ctypes.c_void_p(), ""
        self._known = {}  # name: key of the part that the engine has
        settings = _Settings(os.fsencode(os.fspath(directory)), rank, world)
        settings.keep, settings.no_verify, settings.job = keep, not verify, job
        settings.group, settings.keep_every, settings.arena_hold_s = group, keep_every, arena_hold
        settings.bytes_per_s = bytes_per_s
        why = ctypes.create_string_buffer(512)
        if self.library.lockstep_ckpt_open(ctypes.byref(settings), ctypes.byref(self._handle), why, len(why)) < 0:
            raise CheckpointError(why.value.decode(errors="replace"))

    def _call(self, name, *arguments):
        result = getattr(self.library, "lockstep_ckpt_" + name)(self._handle, *arguments)
        self.error = ""
        if result < 0:
            self.error = self.library.lockstep_ckpt_error(self._handle).decode(errors="replace")
        return result

    def register(self, parts):
        """These and no others.  Each pointer and shape is compared with what the engine has, at every save."""
        for name in [name for name in self._known if name not in parts]:
            self._call("tensor_drop", name.encode())
            del self._known[name]
        for name, part in parts.items():
            if self._known.get(name) != part.key:
                self._known.pop(name, None)
                if self._call("tensor_set", ctypes.byref(part.describe(name))) < 0:
                    return False
                self._known[name] = part.key
        for gpu in {part.gpu for part in parts.values()} - {None}:  # copies come after what is launched there
            self._call("stream_set", gpu, sys.modules["torch"].cuda.current_stream(gpu).cuda_stream)
        return True

    def blob_set(self, name, data):
        return self._call("blob_set", name.encode(), data, len(data)) == 0

    def blob_get(self, name):
        size = self._call("blob_get", name.encode(), None, 0)
        if size < 0:
            return None
        room = ctypes.create_string_buffer(size)
        self._call("blob_get", name.encode(), room, size)
        return room.raw

    def prepare(self):
        return self._call("prepare") == 0

    def begin(self, step):
        return self._call("save_begin", step) == 0

    def fence(self):
        return self._call("fence") == 0

    def cancel(self, why):
        self._call("cancel", why.encode())
        self.error = why

    def wait(self, stage, timeout):
        limit = -1 if timeout is None else int(timeout * 1000)
        return self._call("wait", STAGES[stage], limit) == 0

    def restore(self, step):
        got = ctypes.c_uint64()
        return self._call("restore", step, ctypes.byref(got)) == 0

    def steps(self):
        """Of committed points, newest first."""
        room = (ctypes.c_uint64 * POINTS)()
        return list(room[:max(0, min(POINTS, self._call("list", room, POINTS)))])

    def refused(self):
        """How many points are damaged; and lines (step, reason) of those that cannot be restored."""
        room = ctypes.create_string_buffer(1 << 16)
        count = self._call("refused", room, len(room))
        lines = [line.split(": ", 1) for line in room.value.decode(errors="replace").splitlines()]
        return count, [(int(step.split()[1]), why) for step, why in lines]

    def complete(self, step):
        """Every rank of the job has verified the point."""
        return self._call("complete", step) == 0

    def interval(self, save_s, write_s, failure_s, step_s):
        """Steps from one save to the next that lose the least time, and the reason."""
        answer = _Interval()
        if self.library.lockstep_ckpt_interval(ctypes.byref(_Costs(save_s, write_s, failure_s, 0, step_s)),
                                               ctypes.byref(answer)) < 0:
            raise CheckpointError("no interval for a save of %g s and a failure every %g s" % (save_s, failure_s))
        return max(1, answer.steps), answer.why.decode(errors="replace")

    def status(self):
        status = _Status()
        self._call("status_get", ctypes.byref(status))
        answer = {name: getattr(status, name) for name, _ in status._fields_[1:]}
        for name in ("io", "device", "failure"):
            answer[name] = getattr(status, name).decode(errors="replace")
        for name in ("written", "verified"):
            answer[name] = None if answer[name] == NEWEST else answer[name]
        return answer

    def spans(self):
        """What the stages of the newest verified save took; without verification, of the newest written one.  None: there is none."""
        spans = _Spans()
        if self._call("spans_get", ctypes.byref(spans)) < 0:
            return None
        answer = {name: getattr(spans, name) for name, _ in spans._fields_[1:]}
        answer["disk"] = spans.disk.decode(errors="replace")
        return answer

    def copies(self, step):
        """Nanoseconds that the copies of the point of this step took, to another node and to an object store.  0: there is none so
        far.  None: the point is gone."""
        copies = _Copies()
        if self._call("copies_get", step, ctypes.byref(copies)) < 0:
            return None
        return copies.replicate_ns, copies.upload_ns

    def close(self):
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            self.library.lockstep_ckpt_close(handle)
