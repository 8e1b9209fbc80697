"""The faults that the demo's training makes in itself, by a plan, and what it really did.

The plan and the lines of the truth are those of the C trainer (src/lab/plan.h).  A fault that this
training cannot make is refused by `lockstep demo` before it starts.
"""
import ctypes
import os
import random
import signal
import sys
import time

import torch

LINE = 128
LINEAR = 0.7  # share of the work that goes with tokens; the rest with squared lengths
UNEVEN = 0.05  # of a sequence's length, in a run with uneven data


class Fault:
    """KIND:name=value,..."""

    def __init__(self, text):
        self.kind, _, rest = text.partition(":")
        values = dict(part.split("=", 1) for part in rest.split(",") if part)
        self.rank = int(values["rank"]) if "rank" in values else None
        self.factor = float(values.get("factor", 1))
        self.ms = float(values["ms"]) if "ms" in values else None
        self.first = int(values.get("step", 0))
        self.steps = int(values.get("steps", 0))
        self.phase = values.get("phase", "forward")
        self.done = {"step": 0, "steps": 0, "at": 0, "ns": 0, "last": None}

    def active(self, step):
        return step >= self.first and (not self.steps or step < self.first + self.steps)

    def add(self, step, seconds):
        done = self.done
        if done["steps"] == 0:
            done["step"], done["at"] = step, time.monotonic_ns()
        if done["last"] != step:
            done["steps"] += 1
            done["last"] = step
        done["ns"] += int(seconds * 1e9)


def read(path):
    """(where the truth goes, faults)."""
    truth, faults = None, []
    if not path:
        return truth, faults
    with open(path) as file:
        lines = file.read().splitlines()
    if not lines or lines[0] != "lockstep-plan 1":
        sys.exit("%s: not a plan of version 1" % path)
    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        if word == "truth":
            truth = rest
        elif word == "fault":
            faults.append(Fault(rest))
    return truth, faults


class Sleep(torch.autograd.Function):
    """Waits at the beginning of backward."""

    @staticmethod
    def forward(context, x, faults):
        context.faults = faults
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        context.faults.host_sleep("backward")
        return gradient, None


class SlowFile:
    """A file on a slow disk: takes `factor` times as long as it does."""

    def __init__(self, file, owner, fault):
        self.file, self.owner, self.fault = file, owner, fault
        self.began = time.monotonic()

    def write(self, data):
        return self.file.write(data)

    def flush(self):
        """torch calls it at the end."""
        self.file.flush()
        seconds = (time.monotonic() - self.began) * (self.fault.factor - 1)
        time.sleep(seconds)
        self.fault.add(self.owner.now, seconds)
        self.owner.tell()


class Faults:
    def __init__(self, plan, rank, world, seed, step_seconds):
        truth, self.all = read(plan)
        self.rank, self.world, self.seed, self.step_seconds = rank, world, seed, step_seconds
        self.attempt = int(os.environ.get("LOCKSTEP_RESTART", 0))
        self.now = 0
        self.slower = 1.0  # this rank's device
        self.work = 1.0  # of this rank's sequences
        self.slow = []
        self.truth = None
        if truth and self.all:
            self.truth = open("%s.rank-%d.attempt-%d" % (truth, rank, self.attempt), "wb", buffering=0)
            self.tell()

    def ours(self, kind, step=None):
        step = self.now if step is None else step
        return [fault for fault in self.all if fault.kind == kind and fault.active(step)
                and fault.rank in (None, self.rank)]

    def tell(self):
        """Lines of fixed length, brought up to date every step: they stand also after SIGKILL."""
        if not self.truth:
            return
        text = b""
        for number, fault in enumerate(self.all):
            done = fault.done
            line = "fault %d rank %d attempt %d step %d steps %d at %d ns %d" % (
                number, self.rank, self.attempt, done["step"], done["steps"], done["at"], done["ns"])
            text += line.encode().ljust(LINE - 1) + b"\n"
        self.truth.seek(0)
        self.truth.write(text)

    def step(self, step):
        self.tell()
        self.now = step
        self.slow = self.ours("gpu-slow")
        self.slower = 1.0
        for fault in self.slow:
            self.slower *= fault.factor
        self.work = self._work(self._stretch(step))
        for fault in self.ours("uneven-data"):
            fault.add(step, 0.84 * self.step_seconds * (self.work - 1))

    def slowed(self, seconds):
        for fault in self.slow:
            fault.add(self.now, seconds / len(self.slow))

    # ---- lengths ----

    def _work(self, stretch):
        return LINEAR * stretch + (1 - LINEAR) * stretch * stretch

    def _stretch(self, step):
        uneven = [fault for fault in self.all if fault.kind == "uneven-data" and fault.active(step)]
        if not uneven:
            return 1.0
        chance = random.Random(self.seed * 7919 + step)
        heavy = chance.randrange(self.world) == self.rank
        chance = random.Random((self.seed * 7919 + step) * 4096 + self.rank)
        stretch = 1 + UNEVEN * (2 * chance.random() - 1)
        if heavy:
            square = 1 - LINEAR
            stretch *= ((LINEAR ** 2 + 4 * square * uneven[0].factor) ** 0.5 - LINEAR) / (2 * square)
        return stretch

    def length(self, step, normal):
        return max(8, min(4 * normal - 1, round(normal * self._stretch(step))))

    # ---- waits ----

    def _wait(self, fault, step):
        seconds = (fault.factor - 1) * self.step_seconds if fault.ms is None else fault.ms / 1e3
        time.sleep(seconds)
        fault.add(step, seconds)

    def slow_input(self, step):
        for fault in self.ours("slow-input", step):
            self._wait(fault, step)

    def host_sleep(self, phase):
        for fault in self.ours("host-sleep"):
            if fault.phase == phase:
                self._wait(fault, self.now)

    def backward(self, loss):
        return Sleep.apply(loss, self) if self.ours("host-sleep") else loss

    def slow_file(self, file):
        slow = self.ours("slow-checkpoint")
        return SlowFile(file, self, slow[0]) if slow else file

    # ---- ends ----

    def die(self, step):
        for fault in self.all:
            end = ENDS.get(fault.kind)
            if not end or self.attempt or fault.rank != self.rank or fault.first != step:
                continue
            fault.add(step, 0)
            self.tell()
            end()

    def close(self):
        self.tell()
        if self.truth:
            self.truth.close()


def _raise():
    raise RuntimeError("the demo's fault: an exception that nobody catches")


ENDS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(1),
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "exception": _raise,
}
