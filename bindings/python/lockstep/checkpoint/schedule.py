# SPDX-License-Identifier: Apache-2.0
"""When to save: every N steps, at the interval that costs least, on request, and before the job is ended."""
import math
import os
import signal
import statistics
import sys
import time

from .. import _abi
from .._probe import complain, probe
from .._requests import requests
from .._steps import steps

REQUEUE_STATUS = 75  # EX_TEMPFAIL of sysexits.h
LOOKS_PER_S = 2000  # of all ranks together, whether another one got a notice
FIRST_STEPS = 10  # after which the first save is made whose cost is measured
PRIOR_S = 50000 * 3600.0  # of one GPU between two failures: 419 failures in 54 days of 16,384 GPUs (Llama 3, 2024)


class Preempted(SystemExit):
    """The state is saved, and the program is to end so that it is queued again."""

    __module__ = "lockstep"


# ---- how often ----

def _text(seconds):
    return "%.1f h" % (seconds / 3600) if seconds >= 36000 else "%.0f min" % (seconds / 60) if seconds >= 600 else \
        "%.*f s" % (2 if seconds < 10 else 0, seconds)


class History:
    """Training time and failures of all starts so far: stored with each save."""

    def __init__(self, saved=None):
        saved = saved or {"seconds": 0.0, "failures": 0, "orderly": True}
        self.before_s, self.begin = saved["seconds"], time.monotonic()
        self.failures = saved["failures"] + (not saved["orderly"])
        self.orderly = False  # the next save is the last one before an end on purpose

    def seconds(self):
        return self.before_s + time.monotonic() - self.begin

    def saved(self):
        return {"seconds": self.seconds(), "failures": self.failures, "orderly": self.orderly}

    def failure_s(self, prior_s):
        """What is expected before, counted as one failure, and what was seen."""
        return (prior_s + self.seconds()) / (1 + self.failures)


class Auto:
    """interval="auto": the best interval from the measured cost of a save and the failures that were seen."""

    def __init__(self, world, mtbf, best):
        self.prior_s, self.best = mtbf or PRIOR_S / world, best  # best: Engine.interval
        self.next, self.number, self.printed = None, 0, None
        self.begin, self.first, self.saving_s, self.costs = None, None, 0.0, []

    def due(self, step):
        if self.begin is None:
            self.begin, self.first, self.next = time.monotonic(), step, step + FIRST_STEPS
        return step >= self.next

    def cost(self, seconds):
        self.saving_s += seconds
        self.costs = (self.costs + [seconds])[-5:]

    def step_s(self, step):
        return max((time.monotonic() - self.begin - self.saving_s) / max(1, step - self.first), 1e-6)

    def plan(self, step, write_s, history, meeting):
        """Steps until the next save, the same on all ranks."""
        cost = statistics.median(self.costs or [0.0])
        number, why = self.best(cost, write_s, history.failure_s(self.prior_s), self.step_s(step))
        number = meeting.first_says("next/%d" % self.number, number)
        self.number += 1
        self.next = step + number
        if meeting.rank == 0 and (self.printed is None or not self.printed / 1.5 < number < self.printed * 1.5):
            self.printed = number
            seen = "%d failures in %s" % (history.failures, _text(history.seconds())) if history.failures else "no failure yet"
            sys.stderr.write("lockstep: a checkpoint every %d steps: %s (%s)\n" % (number, why, seen))


# ---- what ranks must agree on ----

class Meeting:
    """Ranks agree through the job's store: no collective, so nothing waits in a step."""

    def __init__(self, ranks, rank, world, job):
        self.rank, self._stop, self._look_at, self._store = rank, None, 0.0, None
        self._world, self.verified = world, None
        self.poll_s = min(5.0, max(0.2, world / LOOKS_PER_S))
        if ranks is not None:
            try:
                from torch.distributed import PrefixStore, distributed_c10d
                self._store = PrefixStore("lockstep/%d" % job, distributed_c10d._get_default_store())
            except Exception as error:
                complain("ranks cannot agree on the end of the job: %r" % (error,))

    def first_says(self, name, value):
        """A whole number of rank 0, for all."""
        if self._store is None:
            return value
        try:
            if self.rank == 0:
                self._store.set(name, str(value))
                return value
            return int(self._store.get(name))
        except Exception as error:
            complain("%s: %r" % (name, error))
            return value

    def complete(self, verified):
        """The newest step that all ranks have verified; `verified`: that of this rank, or None.  Two requests to the store
        for each save, whatever the number of ranks."""
        if self._store is None:
            return -1
        try:
            if verified is not None and verified != self.verified:
                self.verified = verified
                if self._store.add("verified/%d" % verified, 1) == self._world:
                    self._store.set("complete", str(verified))
                    self._store.add("completes", 1)
            return int(self._store.get("complete")) if self._store.add("completes", 0) else -1
        except Exception as error:
            complain("complete: %r" % (error,))
            return -1

    def stop(self, step, noticed, step_s):
        """Is this the last step?  The rank that gets a notice first names a step that no rank has passed when it learns
        of it: each looks every `poll_s` seconds."""
        if self._store is None:
            return noticed
        try:
            self._stop = self._stop or self._look(step, noticed, step_s)
        except Exception as error:
            complain("stop: %r" % (error,))
            return noticed
        return bool(self._stop) and step >= self._stop

    def _look(self, step, noticed, step_s):
        if noticed and self._store.add("noticed", 1) == 1:
            return self._store.add("stop", step + 3 + math.ceil(2 * self.poll_s / step_s))
        now = time.monotonic()
        if now < self._look_at and not noticed:
            return None
        self._look_at = now + self.poll_s
        return self._store.add("stop", 0)  # 0: nobody has named a step


# ---- notices ----

class Notices:
    """Signals that announce the end of the job, and Slurm's time limit."""

    def __init__(self, wanted, margin_s):
        self.came, self._before = None, {}
        end = os.environ.get("SLURM_JOB_END_TIME", "")
        self._end = float(end) - margin_s if end.isdigit() and margin_s is not None else None
        automatic = wanted == "auto"
        if automatic:
            wanted = ["SIGTERM"] + (["SIGUSR1", "SIGUSR2"] if os.environ.get("SLURM_JOB_ID") else [])
        for name in [wanted] if isinstance(wanted, (str, int)) else wanted:
            number = signal.Signals[name] if isinstance(name, str) else signal.Signals(name)
            if automatic and signal.getsignal(number) is not signal.SIG_DFL:
                continue  # the program has its own
            try:
                self._before[number] = signal.signal(number, self._take)
            except ValueError:  # not the main thread
                complain("no notice by %s: the first step() was not called by the main thread" % number.name)

    def _take(self, number, frame):
        self.came = self.came or signal.Signals(number).name
        before = self._before.get(number)
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)

    def look(self):
        """The reason to end, or None."""
        if self.came is None and self._end is not None and time.time() >= self._end:
            self.came = "the time limit of the job"
        return self.came

    def close(self):
        for number, before in self._before.items():
            if signal.getsignal(number) == self._take:
                signal.signal(number, before if before is not None else signal.SIG_DFL)
        self._before = {}


# ---- requests ----

class Asked:
    """`lockstep request checkpoint`: a save at the end of a step that all ranks know by its number.

    Answered when the copy is made, since the answer names the step in which it is given: from then on the writer writes it, whatever
    becomes of the program.
    """

    def __init__(self):
        self._saved = None  # number of the step
        requests.elsewhere = self

    def due(self):
        """The request that this step is to serve, or None."""
        request = probe.request() if probe.handle else None
        if request is None or request.kind != _abi.REQUEST_CHECKPOINT:
            return None
        number = steps.next - 1 if steps.number is None else steps.number
        if request.step >= number:
            return request if request.step == number else None
        probe.answer(request, _abi.ANSWER_DONE if request.step == self._saved else _abi.ANSWER_PAST)
        return None

    def served(self, request, began):
        self._saved = request.step if began else self._saved
        probe.answer(request, _abi.ANSWER_DONE if began else _abi.ANSWER_REFUSED)

    def close(self):
        if requests.elsewhere is self:
            requests.elsewhere = None
