"""The C half of the hooks (src/probe/python.h): a bucket is marked without a line of Python.

What is here is done once for each reducer.  Where the interpreter is not one that the C half knows (not CPython, one
without its lock, a library without it), make() gives nothing, and the method in Python is called as it is.

The C half borrows what it points at; Calls holds all of it, and the callable holds Calls.
"""
import ctypes
import functools
import sys
import sysconfig

from ._probe import complain, probe

OPEN_ROOM = 256
KNOWN_ROOM = 1024
LOOK_AFTER_NS = 200000
_OBJECT = ctypes.c_void_p


class _Functions(ctypes.Structure):
    """struct python_functions."""

    NAMES = ("PyCapsule_GetPointer", "PyTuple_Pack", "PyList_Size", "PyList_GetItem", "PyObject_Call",
             "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyErr_SetString", "PyLong_AsLong", "PyFloat_AsDouble",
             "PyErr_Occurred")
    OBJECTS = None, True, TypeError
    _fields_ = [(str(name), ctypes.c_void_p) for name in NAMES + OBJECTS]


class _Bucket(ctypes.Structure):
    _fields_ = [("tensor", _OBJECT), ("bytes", ctypes.c_uint64), ("dtype", ctypes.c_uint32),
                ("unused", ctypes.c_uint32)]


class _Open(ctypes.Structure):
    _fields_ = [("work", _OBJECT), ("probe", ctypes.c_void_p), ("key", ctypes.c_uint64),
                ("comm", ctypes.c_int32), ("epoch", ctypes.c_uint32)]


class _Buckets(ctypes.Structure):
    _fields_ = [("is_completed", _OBJECT), ("first", ctypes.c_uint64), ("end", ctypes.c_uint64),
                ("look_after_ns", ctypes.c_int64), ("looked_ns", ctypes.c_int64),
                ("wake", _OBJECT), ("end_others", _OBJECT), ("backwards", ctypes.c_uint64),
                ("awake", ctypes.c_uint32), ("others", ctypes.c_uint32), ("open", _Open * OPEN_ROOM)]


class _Group(ctypes.Structure):
    _fields_ = [("buckets", ctypes.POINTER(_Buckets)), ("probe", ctypes.c_void_p),
                ("original", _OBJECT), ("group", _OBJECT), ("method", _OBJECT), ("self", _OBJECT),
                ("known", ctypes.POINTER(_Bucket)), ("known_count", ctypes.c_uint32), ("next", ctypes.c_uint32),
                ("comm", ctypes.c_int32), ("epoch", ctypes.c_uint32), ("stream", ctypes.c_uint32),
                ("unused", ctypes.c_uint32)]


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def _plain(method):
    """Of a method that C++ gave a class: the builtin in it, which saves a call."""
    return getattr(method, "__func__", method)


def _builtin(name, address):
    """A builtin of the library's; its `self` is a capsule around the address, which must live as long."""
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi))(address, None, None)
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi))(probe.library.python_method(name.encode()), capsule, None)


class Fast:
    """What all groups of this process share."""

    def __init__(self):
        self.usable = None  # nobody has tried
        self.library = self.buckets = None
        self.refused = False
        self.over = self.wake = self.end_others = _nothing  # the latter two are told, before any group is made
        self.backward = None  # of C

    def use(self):
        """Is there a C half for this interpreter?"""
        if self.usable is None and not self.refused:
            try:
                self._use()
                self.usable = True
            except Exception as error:
                self.usable = False
                complain("no C half, so Python does it all: %r" % (error,))
        return self.usable and not self.refused

    def _use(self):
        if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise RuntimeError("not an interpreter that it knows")
        functions = _Functions(*(_address(getattr(ctypes.pythonapi, name)) for name in _Functions.NAMES),
                               *map(id, _Functions.OBJECTS))
        result = probe.library.python_use(ctypes.byref(functions), ctypes.sizeof(_Buckets), ctypes.sizeof(_Group))
        if result < 0:
            raise RuntimeError("the library is of another version: %d" % result)

    def ready(self, is_completed):
        """Can buckets be marked by C?"""
        if self.library is None and self.use():
            self.is_completed = _plain(is_completed)
            self.held = self.wake, self.end_others
            self.buckets = _Buckets(id(self.is_completed), look_after_ns=LOOK_AFTER_NS, wake=id(self.wake),
                                    end_others=id(self.end_others))
            self.over, self.backward = (
                _builtin(name, ctypes.addressof(self.buckets)) for name in ("over", "backward"))
            self.library = probe.library
        return self.library is not None

    def quicken(self):
        """The ring is open: marks go past ctypes.  The library has one address for all rings."""
        if self.use() and "phase_begin" not in vars(probe):
            for name in "phase_begin", "phase_end", "step_begin", "step_end", "metric":
                setattr(probe, name, _builtin(name, probe.handle))

    def look(self):
        if self.library is not None:
            self.library.python_look(ctypes.byref(self.buckets))

    def waiting(self):
        return self.library is not None and self.buckets.first != self.buckets.end

    # ---- what C is told of Python's part ----

    def awake(self, is_awake):
        if self.buckets is not None:
            self.buckets.awake = is_awake

    def has_others(self):
        if self.buckets is not None:
            self.buckets.others = 1

    def backwards(self):
        return 0 if self.buckets is None else self.buckets.backwards


def _nothing():
    """Of what C has launched: nothing, as long as it has not."""


fast = Fast()
probe.on_open.append(fast.quicken)


class Calls:
    """The C half of one reducer's group: `call` stands in the place of its method."""

    def __init__(self, owner, method, original, group):
        self.held = _plain(original), group, method
        self.tensors, self.ids = [], set()
        self.known = (_Bucket * KNOWN_ROOM)()
        self.group = _Group(ctypes.pointer(fast.buckets), None, id(self.held[0]), id(group), id(method),
                            id(owner), self.known)  # owner is borrowed: it has us, and is what is called
        # A builtin itself would be taken by pybind for its own: for a method that nobody has overridden.
        self.call = functools.partial(_builtin("allreduce", ctypes.addressof(self.group)))
        self.call.held = self.group, self.known, self.held, self.tensors, fast

    def place(self, handle, comm, stream):
        """Where launches go from here on; without a ring, to the method in Python."""
        group = self.group
        group.epoch = fast.library.python_epoch(handle) if handle and comm >= 0 else 0
        group.probe, group.comm, group.stream = handle, comm, stream

    def learn(self, tensor, size, dtype):
        at = len(self.tensors)
        if at == KNOWN_ROOM:
            return
        self.tensors.append(tensor)
        self.ids.add(id(tensor))
        self.known[at] = _Bucket(id(tensor), size, dtype)
        self.group.known_count = at + 1

    def knows(self, tensor):
        return id(tensor) in self.ids

    def forget(self):
        self.ids.clear()
        self.group.known_count = 0
        self.tensors.clear()
