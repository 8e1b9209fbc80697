# SPDX-License-Identifier: Apache-2.0
"""Uncaught exceptions, as notes: the last words of a rank.

An audit hook sees them before sys.excepthook runs.  So sys.excepthook stays what the program makes
it, whenever it does, and interactive use, where a replaced excepthook changes how errors are shown,
is as it was.

A process of multiprocessing catches what its target raises and prints it, torch's spawn() even sends it to its parent
and leaves by sys.exit(); neither asks sys.excepthook.  There it is heard of by the finalizers that multiprocessing runs
on its way.

Before the traceback is printed, our own frames are taken out of it: it reads as it would without us.
"""
import os
import sys
import threading

from ._imports import imports
from ._probe import complain, probe
from . import _where


def _place(trace):
    """The innermost line of the program itself, else the innermost of all."""
    found = None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if found is None or "site-packages" not in name and "dist-packages" not in name:
            found = "%s:%d" % (os.path.basename(name), trace.tb_lineno)
        trace = trace.tb_next
    return found


_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def strip(value):
    """Takes our frames out of an exception's traceback, and out of those that led to it."""
    seen = set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        before = value.__traceback__
        while before is not None and before.tb_next is not None:
            after = before.tb_next
            if after.tb_frame.f_code.co_filename.startswith(_HERE):
                before.tb_next = after.tb_next
            else:
                before = after
        value = value.__cause__ or value.__context__


def describe(kind, value, trace):
    try:
        text = " ".join(str(value).split())
    except Exception:
        text = "(its text cannot be read)"
    name = kind.__name__ if isinstance(kind, type) else str(kind)
    where = _place(trace)
    tail = " at %s" % where if where else ""
    # The end of a long text matters least; the place must fit.
    room = 300 - len(name) - len(tail.encode("utf-8", "replace"))
    text = text.encode("utf-8", "replace")[:max(room, 40)].decode("utf-8", "ignore")
    return "uncaught %s%s%s" % (name, ": " + text if text else "", tail)


def _tell(kind, value, trace, thread=None):
    # A rank that dies before it trains opens its ring for that; a helper, a worker, a launcher does not.
    if not probe.handle and (_where.is_worker() or "torch" not in sys.modules
                             or _where.rank_and_world() is None or not probe.open()):
        return
    text = describe(kind, value, trace)
    probe.note("in thread %s: %s" % (thread, text) if thread else text)


def _audit(event, arguments):
    if event != "sys.excepthook":
        return
    try:
        _, kind, value, trace = arguments
        strip(value)
        if not hasattr(sys, "ps1"):  # at a prompt nothing ends
            _tell(kind, value, trace)
    except Exception as error:
        complain("exception not noted: %r" % (error,))


def _chain_threads():
    before = threading.excepthook

    def excepthook(args, /):
        try:
            strip(args.exc_value)
            if args.exc_type is not SystemExit:
                name = args.thread.name if args.thread is not None else "?"
                _tell(args.exc_type, args.exc_value, args.exc_traceback, name)
        except Exception as error:
            complain("exception not noted: %r" % (error,))
        before(args)

    threading.excepthook = excepthook


def _tell_child(error):
    """Of a rank that multiprocessing started; helpers have no ring."""
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return
        # As torch's spawn() leaves, having caught what its target raised.
        error = error.__context__ if error.__context__ is not None else error
    if probe.handle and not isinstance(error, KeyboardInterrupt):
        _tell(type(error), error, error.__traceback__)


def _in_flight():
    try:
        error = sys.exc_info()[1]
        if error is not None:
            _tell_child(error)
    except Exception as trouble:
        complain("exception not noted: %r" % (trouble,))


class _Child:
    """What multiprocessing calls in each process that it begins."""

    def begun(self):
        util = sys.modules["multiprocessing.util"]
        util.Finalize(None, _in_flight, exitpriority=1 << 20)  # before all others: some may hang


_child = _Child()


# Who writes down what ends a process, and ends it.
_LAST_WORDS = {("multiprocessing.process", "_bootstrap"), ("torch.multiprocessing.spawn", "_wrap")}


def _hook_words(name):
    import functools
    import traceback
    original = getattr(traceback, name)

    @functools.wraps(original)
    def words(*args, **kwargs):
        caller = sys._getframe(1)
        if (caller.f_globals.get("__name__"), caller.f_code.co_name) in _LAST_WORDS:
            _in_flight()
        return original(*args, **kwargs)

    setattr(traceback, name, words)


def hook_util(module):
    """multiprocessing.util: its finalizers run while the exception is on its way, and leave no frame in its traceback.

    From 3.13 on they run later, and the words are all that there is to hear of it.
    """
    if sys.version_info >= (3, 13):
        _hook_words("print_exc")
        _hook_words("format_exc")
        return
    _child.begun()  # this process may have been spawned
    module.register_after_fork(_child, _Child.begun)  # a fork forgets the finalizers of its parent


def install():
    sys.addaudithook(_audit)
    _chain_threads()
    imports.when("multiprocessing.util", hook_util)
