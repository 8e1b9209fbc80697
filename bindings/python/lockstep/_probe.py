# SPDX-License-Identifier: Apache-2.0
"""This process's ring, or nothing.

One object, `probe`, for everything in the package.  Each of its methods may be called at any time,
from any thread, and never raises: without a launcher, without the library, when the ring cannot be
made, and in a forked child, it does nothing.  The ring is opened by whoever first has something to
say, not at import: most Python processes below a launcher are no ranks.

A forked child has no ring (the library drops its marks, and so do we, to save the call).  A child
that turns out to be a rank of its own may open one.
"""
import os
import sys
import threading

from . import _where


def complain(text):
    """For who wonders why nothing is recorded: LOCKSTEP_DEBUG=1."""
    if os.environ.get("LOCKSTEP_DEBUG") == "1":
        sys.stderr.write("lockstep: python: %s\n" % text)


class Probe:
    def __init__(self):
        self.handle = None  # of the open ring; None: nothing is recorded
        self.turn = 0  # another number whenever handle was given or taken: the library has one handle for all rings
        self.library = None
        self.rank = self.world = None
        self.forked = False  # we are a child of a process that had loaded us
        self.on_open = []  # called once the ring is open, also again after a fork
        self.on_close = []  # called before it is closed
        self._refused = False
        self._final = False  # Python is about to finalize
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self):
        self.handle = None
        self.turn += 1
        self.rank = self.world = None
        self.forked = True
        self._refused = False
        self._lock = threading.Lock()

    # ---- the ring ----

    def open(self, rank=None, world=None):
        """Opens the ring, at most once; True when it is open.

        With rank and world the caller knows better than the environment: a ring opened as
        another rank is closed, and that rank's is opened.
        """
        if self.handle and (rank is None or (rank, world) == (self.rank, self.world)):
            return True
        try:
            with self._lock:
                return self._open(rank, world)
        except Exception as error:  # whatever it is, training goes on
            self._refused = True
            complain("no ring: %r" % (error,))
            return False

    def _open(self, rank, world):
        if self._final:
            return False
        if rank is None:
            if self.handle or self._refused or self.forked:
                return bool(self.handle)
            rank, world = _where.rank_and_world() or (0, 1)
        if self.handle and (rank, world) == (self.rank, self.world):
            return True
        if not _where.under_lockstep() or _where.is_taken(rank):
            self._refused = True
            return False
        if self.library is None:
            from . import _abi
            self.library = _abi.load()
        self._close()
        import ctypes
        handle = ctypes.c_void_p()
        why = ctypes.create_string_buffer(256)
        result = self.library.probe_open(rank, world, ctypes.byref(handle), why, len(why))
        if result < 0:
            self._refused = True
            if os.environ.get("LOCKSTEP_QUIET") != "1":
                sys.stderr.write("lockstep: rank %d is not observed: %s; training continues\n" % (
                    rank, why.value.decode("utf-8", "replace")))
            return False
        self.rank, self.world = rank, world
        self.handle = handle.value
        self.turn += 1
        for call in self.on_open:
            call()
        return True

    def _close(self):
        if self.handle:
            for call in self.on_close:
                call()
        handle, self.handle = self.handle, None
        self.turn += 1
        if handle:
            self.library.probe_close(handle)

    def close(self):
        """Closes the ring in order; whoever opens it again gets a new one."""
        try:
            with self._lock:
                self._close()
        except Exception as error:
            complain("close: %r" % (error,))

    def finish(self):
        """Closes it for good: whatever comes while Python finalizes is not recorded."""
        self._final = True
        self.close()

    # ---- marks: what does not fit the C types is refused in the few that take a user's values ----

    def step_begin(self, number):
        handle = self.handle
        if handle:
            self.library.step_begin(handle, number)

    def step_end(self, number):
        handle = self.handle
        if handle:
            self.library.step_end(handle, number)

    def phase_begin(self, phase):
        handle = self.handle
        if handle:
            self.library.phase_begin(handle, phase)

    def phase_end(self, phase):
        handle = self.handle
        if handle:
            self.library.phase_end(handle, phase)

    def metric(self, metric, value):
        handle = self.handle
        if handle:
            self.library.metric_put(handle, metric, value)

    def digest(self, part, parts, low, high):
        handle = self.handle
        if handle:
            self.library.digest_put(handle, part, parts, low, high)

    def note(self, text):
        handle = self.handle
        if handle:
            data = text.encode("utf-8", "replace").replace(b"\0", b" ")
            self.library.note_put(handle, data)

    def layout(self, sizes, indices):
        """sizes and indices: tp, pp, dp, cp, ep."""
        handle = self.handle
        if handle:
            from . import _abi
            import ctypes
            self.library.layout_set(handle, ctypes.byref(_abi.Layout(*sizes, *indices)))

    def comm_add(self, identity, size, index, kind, name):
        handle = self.handle
        if not handle:
            return -1
        return self.library.comm_add(handle, identity, size, index, kind,
                                     name.encode("utf-8", "replace"))

    def request(self):
        """What the agent asks of this rank and is not answered yet: an _abi.Request, or None."""
        handle = self.handle
        if handle:
            from . import _abi
            import ctypes
            request = _abi.Request()
            if self.library.request_get(handle, ctypes.byref(request)) == 1:
                return request
        return None

    def answer(self, request, answer):
        """answer: one of _abi.ANSWER_*."""
        handle = self.handle
        if handle:
            import ctypes
            self.library.request_answer(handle, ctypes.byref(request), answer)


probe = Probe()
