# SPDX-License-Identifier: Apache-2.0
"""The probe's C ABI (include/lockstep/probe.h) over ctypes.

Two handles on one library.  Marks go through PyDLL, which keeps the interpreter lock: a mark takes
less time than giving the lock away and asking for it again, and another thread that took it meanwhile
would keep it for milliseconds.  Opening and closing touch files, so they go through CDLL, which
lets others run.
"""
import ctypes
import os
import sysconfig

SONAME = "liblockstep.so.0"

PHASES = {
    "init": 1, "comm-init": 2, "compile": 3, "data": 4, "forward": 5, "backward": 6,
    "optimizer": 7, "checkpoint": 8, "eval": 9, "gc": 10, "other": 11,
}
OPS = {
    "all_reduce": 1, "reduce_scatter": 2, "all_gather": 3, "broadcast": 4, "reduce": 5,
    "all_to_all": 6, "barrier": 7, "gather": 8, "scatter": 9, "other": 10, "send": 11, "recv": 12,
}
DTYPES = {
    "unknown": 0, "float32": 1, "bfloat16": 2, "float16": 3, "float64": 4, "float8_e4m3": 5, "float8_e5m2": 6,
    "int8": 7, "int16": 8, "int32": 9, "int64": 10, "uint8": 11, "uint16": 12, "uint32": 13, "uint64": 14,
    "bool": 15, "complex64": 16, "complex128": 17, "other": 18, "mixed": 19,
}
DTYPE_UNKNOWN, DTYPE_OTHER, DTYPE_MIXED = 0, 18, 19
METRICS = {"loss": 1, "grad_norm": 2, "tokens": 3, "length_squares": 4, "micro_batches": 5,
           "values_late": 6, "flop": 7}
COMM_KINDS = {"other": 0, "world": 1, "dp": 2, "tp": 3, "pp": 4, "cp": 5, "ep": 6}

REQUEST_CHECKPOINT = 1
ANSWER_DONE, ANSWER_PAST, ANSWER_REFUSED = 1, 2, 3
NOTE_BYTES = 320
NO_COMM = -1
HOST_THREADS = 0xFF00  # streams from here on are threads of the host
HOST_LATE = 0xFF80  # ... and the ends of their ops are seen late


class Sized(ctypes.Structure):
    """A struct whose first member is its size: what this package knows of it."""

    def __init__(self, *args, **kwargs):
        super().__init__(ctypes.sizeof(self), *args, **kwargs)


class Layout(Sized):
    """struct lockstep_layout."""

    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_uint16) for name in (
        "tp_size", "pp_size", "dp_size", "cp_size", "ep_size", "tp", "pp", "dp", "cp", "ep")]


class OpDesc(Sized):
    """struct lockstep_op_desc.  The hooks use coll_launch and p2p_launch of the private table, which take numbers."""

    _fields_ = [("size", ctypes.c_size_t), ("comm", ctypes.c_int32), ("op", ctypes.c_uint32),
                ("bytes", ctypes.c_uint64), ("time_ns", ctypes.c_uint64), ("dtype", ctypes.c_uint32),
                ("peer", ctypes.c_uint32), ("stream", ctypes.c_uint16), ("flags", ctypes.c_uint16),
                ("reserved", ctypes.c_uint32)]


class Request(Sized):
    """struct lockstep_request."""

    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("step", ctypes.c_uint64), ("argument", ctypes.c_uint64), ("id", ctypes.c_uint64)]


_PROBE = ctypes.c_void_p
_INT = ctypes.c_int
_U16, _U32, _U64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64

# Name in the library without "lockstep_": (result, arguments).
_MARKS = {
    "layout_set": (_INT, [_PROBE, ctypes.POINTER(Layout)]),
    "step_begin": (None, [_PROBE, _U64]),
    "step_end": (None, [_PROBE, _U64]),
    "phase_begin": (None, [_PROBE, _INT]),
    "phase_end": (None, [_PROBE, _INT]),
    "device_span": (None, [_PROBE, _U16, _INT, _U64, _U64, _U64]),
    "comm_add": (_INT, [_PROBE, _U64, _U32, _U32, _INT, ctypes.c_char_p]),
    "coll_enqueue": (_U64, [_PROBE, ctypes.POINTER(OpDesc)]),
    "coll_start": (None, [_PROBE, _INT, _U64, _U64]),
    "coll_end": (None, [_PROBE, _INT, _U64, _U64]),
    "coll_method": (None, [_PROBE, _INT, _INT, _U64, _U32, ctypes.c_char_p]),
    "p2p_enqueue": (_U64, [_PROBE, ctypes.POINTER(OpDesc)]),
    "p2p_start": (None, [_PROBE, _INT, _U64, _U64]),
    "p2p_end": (None, [_PROBE, _INT, _U64, _U64]),
    "metric_put": (None, [_PROBE, _INT, ctypes.c_double]),
    "digest_put": (None, [_PROBE, _U32, _U32, _U64, _U64]),
    "note_put": (None, [_PROBE, ctypes.c_char_p]),
    "request_get": (_INT, [_PROBE, ctypes.POINTER(Request)]),
    "request_answer": (None, [_PROBE, ctypes.POINTER(Request), _INT]),
    "clock_ns": (_U64, []),
    "version": (ctypes.c_char_p, []),
}
_CALLS = {
    "probe_open": (_INT, [_U32, _U32, ctypes.POINTER(_PROBE), ctypes.c_char_p, ctypes.c_size_t]),
    "probe_close": (None, [_PROBE]),
}
# struct private_table of src/probe/private_table.h: functions without exported names, in the struct's order.
_PRIVATE_VERSION = 4
_PRIVATE = {
    "coll_launch": (_U64, [_PROBE, _INT, _INT, _U64, _U16, _INT]),
    "p2p_launch": (_U64, [_PROBE, _INT, _INT, _U32, _U64, _U16, _INT]),
    "python_use": (_INT, [ctypes.c_void_p, _U64]),
    "python_method": (ctypes.c_void_p, [ctypes.c_char_p]),
    "gloo_use": (_INT, [ctypes.c_void_p, _U64]),
    "gloo_watch": (_INT, [ctypes.c_void_p, _PROBE, _INT, _U16]),
    "gloo_work": (_INT, [ctypes.c_void_p, _PROBE, _INT, _U64]),
    "gloo_done": (None, [ctypes.c_void_p]),
    "gloo_look": (_U32, []),
    "nccl_watch": (None, [_INT]),
    "stamps_use": (_INT, [_PROBE, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, _U64]),
    "stamps_reason": (ctypes.c_char_p, []),
    "host_waits": (_INT, [ctypes.c_void_p]),
    "nccl_group": (None, [_U32, _U32, _U32, ctypes.c_char_p]),
}


def candidates():
    """Where the library may be, best first; a name without a slash is left to the loader."""
    here = os.path.dirname(os.path.abspath(__file__))
    above = os.path.normpath(os.path.join(here, "..", "..", ".."))
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    given = os.environ.get("LOCKSTEP_LIB")
    if given:
        return [given]  # who names one wants no other
    return [
        os.path.join(here, SONAME),  # a wheel
        os.path.join(here, "liblockstep.so"),
        os.path.join(above, SONAME),  # the package as copied into a build directory
        os.path.join(above, "build", SONAME),  # the source tree, built as `make` does
        # installed: PREFIX/share/lockstep/python/lockstep
        os.path.join(os.path.dirname(above), "lib", triplet, SONAME),
        os.path.join(os.path.dirname(above), "lib", SONAME),
        SONAME,
    ]


def _bind(library, table, into):
    for name, (result, arguments) in table.items():
        function = getattr(library, "lockstep_" + name)
        function.restype = result
        function.argtypes = arguments
        setattr(into, name, function)


def _bind_private(library, into):
    library.lockstep_private_table.restype = ctypes.POINTER(ctypes.c_void_p * len(_PRIVATE))
    table = library.lockstep_private_table(ctypes.c_uint32(_PRIVATE_VERSION))
    if not table:
        raise OSError("the library is of another version than this package")
    for address, (name, (result, arguments)) in zip(table.contents, _PRIVATE.items()):
        setattr(into, name, ctypes.PYFUNCTYPE(result, *arguments)(address))


class Library:
    """The library's functions under their names without "lockstep_"."""

    def __init__(self, path):
        self.path = path
        _bind(ctypes.PyDLL(path), _MARKS, self)
        _bind(ctypes.CDLL(path), _CALLS, self)
        _bind_private(ctypes.PyDLL(path), self)


def load():
    """The library.  OSError with every place that was tried when there is none."""
    tried = []
    for path in candidates():
        if os.sep in path and not os.path.exists(path):
            tried.append("%s: not there" % path)
            continue
        try:
            return Library(path)
        except (OSError, AttributeError) as error:
            tried.append("%s: %s" % (path, error))
    raise OSError("no usable liblockstep.so; " + "; ".join(tried))
