# SPDX-License-Identifier: Apache-2.0
"""Seals what torch.save and torch.distributed.checkpoint write: `lockstep ckpt seal` on the directory, in a child process.

The child waits until nothing in the directory has changed for some seconds, so it seals what all ranks have saved there, and runs at
the lowest priority.  It never delays or fails the program; what it finds wrong is one line on stderr.
"""
import atexit
import os
import shutil
import subprocess
import sys
import threading
import time

from .. import _abi, _where
from .._imports import imports
from .._probe import complain
from .._wrap import wraps

SETTLE_S = 5.0
EXIT_S = 10.0  # `lockstep run` ends all processes of a rank with it: so long the exit waits for the last seal
_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seal_child.py")


def program():
    """The program lockstep: LOCKSTEP_PROGRAM, beside the library, in the same installation, on PATH; None."""
    given = os.environ.get("LOCKSTEP_PROGRAM")
    if given:
        return given
    places = [os.path.dirname(path) for path in _abi.candidates() if os.path.dirname(path)]
    installed = os.path.normpath(os.path.join(os.path.dirname(_CHILD), "..", "..", "..", "..", "..", "bin"))
    for place in [*places, installed]:
        path = os.path.join(place, "lockstep")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return shutil.which("lockstep")


class Seals:
    def __init__(self):
        self.below = None  # only directories below this one; None: all
        self.settle_s = SETTLE_S
        self.on = False
        self._children = {}  # directory: the child that will seal it
        self._lock = threading.Lock()  # asynchronous saves end in other threads
        self._at_exit = False

    def after(self, directory):
        """Something was saved there."""
        try:
            self._after(os.path.realpath(directory))
        except Exception as error:  # whatever it is, training goes on
            complain("%s is not sealed: %r" % (directory, error))

    def _after(self, directory):
        below = self.below
        if below is not None and directory != below and not directory.startswith(os.path.join(below, "")):
            return
        with self._lock:
            self._children = {place: child for place, child in self._children.items() if child.poll() is None}
            if directory in self._children:
                return  # it waits until the directory is quiet
            path = program()
            if path is None or not sys.executable:
                complain("%s is not sealed: no program lockstep; LOCKSTEP_PROGRAM names one" % directory)
                return
            if not self._at_exit and _where.under_lockstep():
                self._at_exit = True
                atexit.register(self.finish)
            self._children[directory] = subprocess.Popen(
                [sys.executable, "-I", "-S", _CHILD, path, directory, str(self.settle_s)], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, start_new_session=True)

    def finish(self, limit_s=EXIT_S):
        """No further save comes: the children need not wait for one."""
        until = time.monotonic() + limit_s
        for child in self._children.values():
            try:
                child.stdin.close()
                child.wait(max(0.0, until - time.monotonic()))
            except (OSError, subprocess.TimeoutExpired) as error:
                complain("at exit: %r" % (error,))


seals = Seals()


def _of_save(args, kwargs):
    """The directory of torch.save(obj, f)."""
    place = kwargs.get("f", args[1] if len(args) > 1 else None)
    return os.path.dirname(os.path.abspath(os.fspath(place))) if isinstance(place, (str, os.PathLike)) else None


def _of_dcp(args, kwargs):
    """The directory of dcp.save(state_dict, checkpoint_id=, storage_writer=)."""
    place = kwargs.get("checkpoint_id")
    writer = kwargs.get("storage_writer", next((value for value in args[1:] if hasattr(value, "write_data")), None))
    if writer is not None:
        if type(writer).__module__.partition(".")[0] != "torch":
            return None  # another storage knows its own seals
        place = place or getattr(writer, "path", None)
    return os.path.abspath(os.fspath(place)) if isinstance(place, (str, os.PathLike)) else None


def _wrap(original, where):
    @wraps(original)
    def save(*args, **kwargs):
        result = original(*args, **kwargs)
        if seals.on:
            try:
                place = where(args, kwargs)
                if place is not None and hasattr(result, "add_done_callback"):
                    result.add_done_callback(lambda future: future.exception() or seals.after(place))
                elif place is not None:
                    seals.after(place)
            except Exception as error:
                complain("seal: %r" % (error,))
        return result

    save._lockstep_seals = True
    return save


def _replace(modules, name, where):
    original = getattr(modules[0], name, None)
    if original is None or getattr(original, "_lockstep_seals", False):
        return
    wrapper = _wrap(original, where)
    for module in modules:
        if getattr(module, name, None) is original:
            setattr(module, name, wrapper)


def _hook_save(module):
    _replace([module, sys.modules["torch"]], "save", _of_save)


def _hook_dcp(module):
    inside = [sys.modules[name] for name in (module.__name__ + ".state_dict_saver",) if name in sys.modules]
    for name in ("save", "async_save"):
        _replace([module, *inside], name, _of_dcp)


def _torch_loaded(torch):
    imports.when("torch.serialization", _hook_save)
    imports.when("torch.distributed.checkpoint", _hook_dcp)


def hook_torch(torch):
    """LOCKSTEP_SEAL=1 under `lockstep run`."""
    seals.on = True
    _torch_loaded(torch)


def seal_after(directory=None, settle=SETTLE_S):
    """Seals each checkpoint that torch.save or torch.distributed.checkpoint writes from now on, below `directory` if given.

    False ends it.  `settle`: seconds without a change before the directory counts as complete.
    """
    seals.on = directory is not False
    seals.below = os.path.realpath(directory) if directory not in (None, False) else None
    seals.settle_s = float(settle)
    if seals.on:
        imports.when("torch", _torch_loaded)
