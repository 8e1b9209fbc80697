# SPDX-License-Identifier: Apache-2.0
"""When operations end that run beside the program: looked for by threads of Python, never reported by others.

A future could report an end, but in the thread that did the work.  That is no thread of Python's: it would ask for the
interpreter's lock, and a thread that does so while the interpreter is taken down ends the process (SIGABRT).  So no
callable of ours ever goes to torch.  Ends are seen where the program calls us anyway, and every half second by a thread
of ours, which is stopped before Python begins to finalize.  So they are upper bounds, and lie on streams that say so
(HOST_LATE).

Where C sees when a work of gloo's is destroyed (_gloo.py), the program alone holds its works.  Elsewhere a work is held
until its end has been seen, or the program has waited for it: nobody else can be asked.
"""
import os
import threading
import time
import weakref

from ._probe import complain, probe


class Op:
    """An op that has been launched.  Called, by whoever sees first that it is over, it ends."""

    __slots__ = ("mark", "comm", "key", "turn")

    def __init__(self, mark, comm, key):
        self.mark, self.comm, self.key, self.turn = mark, comm, key, probe.turn

    def __call__(self):
        handle = probe.handle
        if handle and self.turn == probe.turn:  # else there is no ring, or another one
            self.turn = -1
            self.mark(handle, self.comm, self.key, 0)


def in_child(call):
    """Calls it in a forked child, which has none of its parent's threads, and maybe their locks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


class Watch:
    """A thread that looks now and then while something is open; a job that hangs calls us nowhere."""

    PERIOD_S = 0.5
    JOIN_S = 2  # a look takes microseconds

    def __init__(self):
        self.looks = []  # functions: look, and say whether something is still open
        self.stopped = False
        self._reset()
        in_child(self._reset)

    def _reset(self):
        self.thread = None
        self.awake = False
        self.wanted, self.ending = threading.Event(), threading.Event()

    def begin(self):
        """Something is open."""
        if self.awake or self.stopped:
            return
        self.awake = True
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, args=(self.wanted, self.ending), name="lockstep",
                                           daemon=True)
            try:
                self.thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter starts none any more
                complain("ends are seen at calls only: %r" % (error,))
                self.stopped = True
                return
        self.wanted.set()

    def stop(self):
        """Before Python finalizes: a thread that then asks for its lock takes the process with it."""
        self.stopped = True
        thread, self.thread = self.thread, None
        if thread is not None and thread.is_alive():
            self.ending.set()
            self.wanted.set()
            thread.join(self.JOIN_S)

    def _looked(self):
        """Are there any left?"""
        left = False
        for look in self.looks:
            left = bool(look()) or left
        return left

    def _run(self, wanted, ending):
        while True:
            wanted.wait()
            if ending.wait(self.PERIOD_S):
                return
            if self._looked():
                continue
            wanted.clear()
            self.awake = False
            if ending.wait(self.PERIOD_S):
                return
            if self._looked():  # began in between, and took us to be awake
                self.begin()


watch = Watch()


def is_over(work):
    """Has it ended, well or not?  None: this kind of work does not say."""
    try:
        return work.is_completed()
    except Exception:
        return None


class _Held:
    """Like a weak reference, but not weak."""

    __slots__ = ("work",)

    def __init__(self, work):
        self.work = work

    def __call__(self):
        return self.work


class Works:
    """Collectives that run beside the program, oldest first."""

    LOOK_AFTER_NS = 200000  # small ones come so fast that asking each time would tell nothing more

    def __init__(self):
        self.open = {}  # id of the work: (reference, op)
        self.looked = 0
        watch.looks.append(self.look_at_all)
        probe.on_close.append(self.close)
        in_child(self.open.clear)

    def hold(self, work, op):
        """Nobody but the work can be asked for its end."""
        self.open[id(work)] = _Held(work), op
        watch.begin()

    def add(self, work, op):
        """C sees the end of one that nobody holds any more."""
        name, entries = id(work), self.open
        entries[name] = weakref.ref(work, lambda _: entries.pop(name, None)), op
        watch.begin()

    def done(self, work):
        """The program has waited for it."""
        entry = self.open.pop(id(work), None)
        if entry is not None:
            entry[1]()

    def _look(self, name, reference, op):
        """Is it open?"""
        work = reference()
        if work is not None and is_over(work) is False:
            return True
        if self.open.pop(name, None) and work is not None:
            op()
        return False

    def look_again(self):
        """Of the oldest, up to one that is not over: those behind it began later."""
        now = time.monotonic_ns()
        if now - self.looked < self.LOOK_AFTER_NS:
            return
        self.looked = now
        for name, entry in list(self.open.items()):
            if self._look(name, *entry):
                return

    def look_at_all(self):
        for name, entry in list(self.open.items()):
            self._look(name, *entry)
        return self.open

    def close(self):
        """The ring is about to be closed: what is not over by now has no end in it."""
        self.look_at_all()
        self.open.clear()


works = Works()
