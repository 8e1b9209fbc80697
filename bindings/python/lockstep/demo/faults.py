# SPDX-License-Identifier: Apache-2.0
"""The faults that the demo's training makes in itself, by a plan, and what it really did.

The plan and the lines of the truth are those of the C trainer (lab/faults/plan.h).  A fault that this
training cannot make is refused by `lockstep demo` before it starts.
"""
import ctypes
import os
import random
import signal
import sys
import time

import torch

import stuck

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
        self.every = int(values.get("every", 1))
        self.over = int(values.get("over", 0))
        self.phase = values.get("phase", "forward")
        self.done = {"step": 0, "steps": 0, "at": 0, "ns": 0, "last": None}

    def active(self, step):
        since = step - self.first
        return since >= 0 and (not self.steps or since < self.steps) and since % self.every == 0

    def factor_in(self, step):
        """Less while it still grows."""
        grown = step - self.first + 1
        return 1 + (self.factor - 1) * grown / self.over if grown < self.over else self.factor

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
        context.faults.host("backward")
        return gradient, None


class SlowFile:
    """A file on a slow disk: takes `factor` times as long as it does, or so much longer."""

    def __init__(self, file, owner, fault):
        self.file, self.owner, self.fault = file, owner, fault
        self.began = time.monotonic()

    def write(self, data):
        return self.file.write(data)

    def flush(self):
        """torch calls it at the end."""
        self.file.flush()
        seconds = (time.monotonic() - self.began) * (self.fault.factor - 1) \
            if self.fault.ms is None else self.fault.ms / 1e3
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
        self.made = set()  # faults that happen once and have
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
        self.slow = self.ours("gpu-slow") + self.ours("all-slow") + \
            [fault for fault in self.ours("wandering-gpu") if self._wanders_here(fault)]
        self.slower = 1.0
        for fault in self.slow:
            self.slower *= fault.factor_in(step)
        self.work = self._work(self._stretch(step))
        for fault in self.ours("uneven-data"):
            fault.add(step, 0.84 * self.step_seconds * (self.work - 1))

    def _wanders_here(self, fault):
        """Whose turn it is: never twice the same, and all ranks come to the same answer."""
        chance = random.Random(self.seed * 7919 + 1)
        at = chance.randrange(self.world)
        for _ in range(fault.first, self.now):
            at = (at + 1 + chance.randrange(max(self.world - 1, 1))) % self.world
        return at == self.rank

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

    def input(self, step):
        """The batch of this step is asked for."""
        for fault in self.ours("slow-input", step):
            self._wait(fault, step)
        if self.due("stuck-data", step):
            stuck.forever()

    def host(self, phase):
        """The program's own code, at the beginning of this phase."""
        for fault in self.ours("host-sleep"):
            if fault.phase == phase:
                self._wait(fault, self.now)
        for fault in self.all:
            if fault.kind == "stuck-code" and fault.phase == phase and self.due("stuck-code"):
                stuck.forever()

    def backward(self, loss):
        return Sleep.apply(loss, self) if self.ours("host-sleep") or self.is_due("stuck-code") else loss

    def slow_file(self, file):
        slow = self.ours("slow-checkpoint")
        return SlowFile(file, self, slow[0]) if slow else file

    # ---- once ----

    def _due(self, kind, step):
        for number, fault in enumerate(self.all):
            if fault.kind == kind and not self.attempt and fault.rank in (None, self.rank) \
                    and fault.first == step and number not in self.made:
                yield number, fault

    def is_due(self, kind, step=None):
        return any(True for _ in self._due(kind, self.now if step is None else step))

    def due(self, kind, step=None):
        """The fault, once, in the first attempt, in its step; it is told before it is made."""
        step = self.now if step is None else step
        for number, fault in self._due(kind, step):
            self.made.add(number)
            fault.add(step, 0)
            self.tell()
            return fault
        return None

    def middle(self):
        """In the middle of a step: ways to end, to stand still, to be busy."""
        for kind, end in ENDS.items():
            if self.due(kind):
                end()
        busy = self.due("busy")
        until = time.monotonic() + (busy.ms / 1e3 if busy else 0)
        while time.monotonic() < until:
            pass

    def pause(self, kind):
        """Seconds of a pause that is no fault: eval, slow-start."""
        fault = self.due(kind)
        return fault.ms / 1e3 if fault else 0

    # ---- numbers ----

    def poison(self, x):
        """What a rank computed, one number of it not a number any more."""
        return x * torch.tensor([float("nan")] + [1.0] * (x.shape[-1] - 1)) if self.due("nan") else x

    def flip(self, parameters):
        """One bit of the parameters."""
        fault = self.due("bit-flip")
        if not fault:
            return
        chance = random.Random(self.seed * 7919 + self.all.index(fault))
        parameter = chance.choice(parameters).detach().view(-1)
        at = chance.randrange(parameter.numel())
        parameter[at:at + 1].view(torch.int32).bitwise_xor_(1 << 21)

    def frozen(self):
        """The optimizer runs, and changes nothing."""
        faults = self.ours("frozen-parameters")
        for fault in faults:
            fault.add(self.now, 0)
        return bool(faults)

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
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "stuck-gil": stuck.gil,
    "frozen-link": stuck.frozen_link,
    "oom": stuck.memory,
}
