# SPDX-License-Identifier: Apache-2.0
"""The C half of the hooks (src/probe/python.h): marks that need no line of Python and do not pass ctypes.

Where the interpreter is not one that the C half knows (not CPython, one without its lock, a library without it), use()
says so, and everything is done in Python.
"""
import ctypes
import sys
import sysconfig

from ._probe import complain, probe


class _Functions(ctypes.Structure):
    """struct python_functions."""

    NAMES = ("PyCapsule_GetPointer", "PyObject_Call", "Py_IncRef", "PyErr_Clear", "PyErr_SetString",
             "PyLong_AsLong", "PyFloat_AsDouble", "PyErr_Occurred", "Py_DecRef", "PyEval_SaveThread",
             "PyEval_RestoreThread")
    OBJECTS = None, TypeError
    _fields_ = [(str(name), ctypes.c_void_p) for name in NAMES + OBJECTS]


def _address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class Fast:
    def __init__(self):
        self.usable = None  # nobody has tried
        self.refused = False

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
        result = probe.library.python_use(ctypes.byref(functions), ctypes.sizeof(functions))
        if result < 0:
            raise RuntimeError("the library is of another version: %d" % result)

    def builtin(self, name):
        """One of the library's; its `self` is a capsule around the probe, of which the library has one for all rings."""
        capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi))(probe.handle, None, None)
        return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi))(probe.library.python_method(name.encode()), capsule, None)

    def quicken(self):
        """The ring is open: marks go past ctypes."""
        if self.use() and "phase_begin" not in vars(probe):
            for name in "phase_begin", "phase_end", "step_begin", "step_end", "metric":
                setattr(probe, name, self.builtin(name))


fast = Fast()
probe.on_open.append(fast.quicken)
