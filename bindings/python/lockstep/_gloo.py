# SPDX-License-Identifier: Apache-2.0
"""Buckets of DistributedDataParallel on gloo, seen by C where torch's reducer hands them over (src/probe/gloo.h).

What C needs to know of torch is found out here, once, in this very process: tables of virtual functions by torch's
exported symbols, places in them by the addresses of the functions, places in a tensor by tensors of known size and
type.  Memory is read through a file, so that a wrong address is an error and no crash.  What is not exactly as expected
is refused (Unlike), and then _buckets.py does it in Python; so it does with LOCKSTEP_GLOO=python.
"""
import ctypes
import os
import re
import struct
import sys
import weakref

from . import _abi, _torch
from ._fast import fast
from ._groups import groups
from ._probe import complain, probe

STREAM = _abi.HOST_LATE  # plus the communicator's place
# Versions of torch that test/python has been run with in this mode; with others LOCKSTEP_GLOO=c asks for it.  To add one:
# run p2100-torch-ddp, p2300-exit (LOCKSTEP_EXIT_CASES=all) and p2310-unwind with it (tools/torch-newer, where a Debian
# has it) with LOCKSTEP_GLOO=c, and add the version here and in docs/PYTORCH.md.
SEEN = {"1.13", "2.6"}
_HEAD = 2  # words of a table before its first function
_TABLE_WORDS = 256
_TENSOR_BYTES = 256
_SYMBOLS = {
    "group": "_ZTVN4c10d16ProcessGroupGlooE",
    "group_allreduce":
        "_ZN4c10d16ProcessGroupGloo9allreduceERSt6vectorIN2at6TensorESaIS3_EERKNS_16AllreduceOptionsE",
    "group_delete": "_ZN4c10d16ProcessGroupGlooD0Ev",
    "work": "_ZTVN4c10d4WorkE",
    "work_delete": "_ZN4c10d4WorkD0Ev",
}
_SHAPES = (7, 11), (13, 17), (3, 5, 19), ()
# torch's numbers of types, which are in its files and so for ever.
_NUMBERS = {"uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6, "float64": 7,
            "bool": 11, "bfloat16": 15}
_WORD = struct.Struct("=Q")
_HALF = struct.Struct("=H")


class Unlike(Exception):
    """This torch is not what we know."""


def is_seen(version):
    """1.13.0a0, 2.6.0+debian ...: has this one been tested?"""
    numbers = re.match(r"(\d+\.\d+)(\D|$)", str(version))
    return numbers is not None and numbers.group(1) in SEEN


def _words(error):
    return str(error) if isinstance(error, Unlike) else repr(error)


class _Dtype(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8), ("dtype", ctypes.c_uint8)]


class _Torch(ctypes.Structure):
    """struct gloo_torch."""

    DTYPES = 64
    _fields_ = [("group_table", ctypes.c_void_p), ("data_begin", ctypes.c_size_t), ("data_end", ctypes.c_size_t),
                ("group_allreduce", ctypes.c_uint32), ("group_delete", ctypes.c_uint32),
                ("work_delete", ctypes.c_uint32), ("elements_at", ctypes.c_uint32), ("dtype_at", ctypes.c_uint32),
                ("unused", ctypes.c_uint32), ("dtypes", _Dtype * DTYPES)]


# ---- what is found out ----

def _read(address, size):
    with open("/proc/self/mem", "rb", 0) as memory:
        memory.seek(address)
        return memory.read(size)


def _word(address):
    return _WORD.unpack(_read(address, _WORD.size))[0]


def _mapping(address):
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(one, 16) for one in line.split(None, 1)[0].split("-"))
            if begin <= address < end:
                return begin, end
    raise Unlike("%#x is not mapped" % address)


def _symbols(torch):
    library = ctypes.CDLL(torch._C.__file__)  # looks in all that it is linked with
    try:
        return {name: ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
                for name, symbol in _SYMBOLS.items()}
    except AttributeError as error:
        raise Unlike(str(error))


def _only(places, what):
    if len(places) != 1:
        raise Unlike("%s: %d places" % (what, len(places)))
    return places.pop()


def _place(table, words, function, what):
    data = _read(table, words * _WORD.size)
    return _only([at for at, (word,) in enumerate(_WORD.iter_unpack(data)) if word == function], what)


def _in_tensors(kind, pairs, what):
    """Where all of the tensors have their value."""
    places = set(range(0, _TENSOR_BYTES, kind.size))
    for tensor, value in pairs:
        data = _read(tensor._cdata, _TENSOR_BYTES)
        places &= {at * kind.size for at, (one,) in enumerate(kind.iter_unpack(data)) if one == value}
    return _only(places, what)


def _learn(torch):
    at = _symbols(torch)
    table, work = at["group"] + _HEAD * _WORD.size, at["work"] + _HEAD * _WORD.size
    begin, end = _mapping(table)
    words = min(_TABLE_WORDS, (end - table) // _WORD.size)
    learnt = _Torch(table, begin, end,
                    *(_place(table, words, at[name], name) for name in ("group_allreduce", "group_delete")),
                    _place(work, 64, at["work_delete"], "work_delete"))

    def empty(shape, dtype):
        return torch.empty(shape, dtype=dtype, device="cpu")

    sizes = [empty(shape, torch.float32) for shape in _SHAPES]
    kinds = [(empty(3, getattr(torch, name)), number) for name, number in _NUMBERS.items()]
    learnt.elements_at = _in_tensors(_WORD, [(one, one.numel()) for one in sizes], "elements")
    learnt.dtype_at = _in_tensors(_HALF, kinds, "dtype")
    for dtype, number in _torch.dtypes.items():
        tensor = empty(0, dtype)
        place = _HALF.unpack_from(_read(tensor._cdata, _TENSOR_BYTES), learnt.dtype_at)[0]
        if place < _Torch.DTYPES:
            learnt.dtypes[place] = _Dtype(tensor.element_size(), number)
    return learnt


def _object(torch, group):
    """The address of the C++ object that does what this group is asked on tensors in host memory."""
    if hasattr(group, "_get_backend"):
        group = group._get_backend(torch.device("cpu"))
    return _word(id(group) + object.__basicsize__)  # pybind11 has it behind the object's head


# ---- groups ----

class Gloo:
    def __init__(self):
        self.learnt = None  # False: nothing, and that will not change
        self.groups = weakref.WeakKeyDictionary()  # group: the address of its object
        self.over = self.aside = None  # of C, once there is a group: both may be called without one
        self.look = _none
        self.follows = {}  # communicator's place: are the works of its group seen by C?
        self.work = None  # torch's class, and a table of one of its objects that has been looked at
        probe.on_open.append(self.put_back)
        probe.on_close.append(self.take_off)

    def watch(self, group):
        """All-reduces of this group are recorded by C from now on; False: they cannot be."""
        try:
            if not self._ready():
                return False
            if group not in self.groups:
                pointer = _object(sys.modules["torch"], group)
                if _word(pointer) != self.learnt.group_table:
                    raise Unlike("an object of another class")
                self.groups[group] = pointer
            self._put(group)
            return True
        except Exception as error:
            complain("buckets of a group are marked by Python: %s" % _words(error))
            self.groups.pop(group, None)
            return False

    def follow(self, group, work, comm, key):
        """The address of this work, which C watches from now on; None: it does not."""
        follows = self.follows.get(comm)
        if follows is None:
            follows = self.follows[comm] = self._can_follow(group, work)
        if not follows or type(work) is not self.work:
            return None
        pointer = ctypes.c_void_p.from_address(id(work) + object.__basicsize__).value
        watch = probe.library.gloo_work
        if watch(pointer, probe.handle, comm, key) == 0:
            return pointer
        self.look()  # puts ends into the ring, which makes room
        return pointer if watch(pointer, probe.handle, comm, key) == 0 else None

    def _can_follow(self, group, work):
        try:
            if not self._ready():
                return False
            if group not in self.groups and _word(_object(sys.modules["torch"], group)) != self.learnt.group_table:
                raise Unlike("an object of another class")
            pointer = _word(id(work) + object.__basicsize__)
            if not self.learnt.data_begin <= _word(pointer) < self.learnt.data_end:
                raise Unlike("a work of another class")
            from torch._C._distributed_c10d import Work
            self.work = Work
            return True
        except Exception as error:
            complain("ends of a group's works are seen by Python: %s" % _words(error))
            return False

    def _ready(self):
        if self.learnt is None:
            self.learnt = False
            wish = os.environ.get("LOCKSTEP_GLOO")
            if wish in ("python", "off"):
                raise Unlike("LOCKSTEP_GLOO=%s wants it so" % wish)
            if wish not in (None, "", "c"):
                complain("LOCKSTEP_GLOO=%s: expected c, python or off; ignored" % wish)
            version = sys.modules["torch"].__version__
            if wish != "c" and not is_seen(version):
                raise Unlike("not tested with torch %s; LOCKSTEP_GLOO=c uses it all the same" % version)
            if not fast.use() or not hasattr(probe.library, "gloo_use"):
                raise Unlike("no C half")
            learnt = _learn(sys.modules["torch"])
            result = probe.library.gloo_use(ctypes.byref(learnt), ctypes.sizeof(learnt))
            if result < 0:
                raise Unlike("refused: %d" % result)
            self.over, self.aside = fast.builtin("over"), fast.builtin("aside")
            self.look, self.learnt = probe.library.gloo_look, learnt
        return self.learnt is not False

    def _put(self, group):
        comm = groups.handle(group)
        result = probe.library.gloo_watch(self.groups[group], probe.handle, comm, STREAM + max(comm, 0))
        if result < 0:
            raise Unlike("not watched: %d" % result)

    def put_back(self):
        """In another ring communicators have other places."""
        self.follows.clear()
        for group in list(self.groups):
            try:
                self._put(group)
            except Exception as error:
                complain("buckets of a group are no longer recorded: %s" % _words(error))

    def take_off(self):
        """Groups are as torch made them."""
        for pointer in self.groups.values():
            probe.library.gloo_watch(pointer, probe.handle, -1, 0)


def _none():
    """Nothing is open where nothing is watched."""
    return 0


gloo = Gloo()
