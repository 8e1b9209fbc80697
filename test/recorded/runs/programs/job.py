# SPDX-License-Identifier: Apache-2.0
"""job - what the programs of this folder share: their options, a model, and faults that happen to people.

A fault is KIND or KIND:VALUE; it strikes the rank --bad from step --at on.
"""
import argparse
import gc
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist


def options(**more):
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--width", type=int, default=256, help="of the hidden layers")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--work-ms", type=float, default=0, help="sleep in forward, as a device would take")
    parser.add_argument("--fault", default="")
    parser.add_argument("--bad", type=int, default=1, help="rank with the fault")
    parser.add_argument("--at", type=int, default=25, help="step at which the fault begins")
    for name, value in more.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    return parser.parse_args()


class Model(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.fault = None
        self.body = torch.nn.Sequential(
            torch.nn.Linear(64, args.width), torch.nn.ReLU(), torch.nn.Linear(args.width, args.width),
            torch.nn.ReLU(), torch.nn.Linear(args.width, 10))

    def forward(self, x):
        device(self.args.work_ms)
        if self.fault:
            self.fault.forward()
        return self.body(x)


def device(ms):
    """Stands for what a device would do meanwhile: nobody's processor."""
    if ms:
        time.sleep(ms / 1e3)


class SlowFile(io.FileIO):
    def __init__(self, path, seconds):
        super().__init__(path, "w")
        self.seconds = seconds

    def write(self, data):
        time.sleep(self.seconds)
        self.seconds = 0
        return super().write(data)


FREEZER = """
import os, signal, sys, time
pid, seconds = int(sys.argv[1]), float(sys.argv[2])
try:
    while True:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        time.sleep(3 * seconds)
except ProcessLookupError:
    pass
"""


class Fault:
    """Called by a program at the places where faults strike."""

    def __init__(self, args, rank):
        kind, _, value = args.fault.partition(":")
        self.kind, self.value = kind, float(value or 0)
        self.args, self.rank, self.step = args, rank, 0
        self.junk = []

    def strikes(self, kind, everyone=False):
        return self.kind == kind and self.step >= self.args.at and (everyone or self.rank == self.args.bad)

    def begin(self, step):
        self.step = step
        if self.strikes("sleep"):
            time.sleep(self.value / 1e3)
        if self.strikes("every4") and step % 4 == 0:
            time.sleep(self.value / 1e3)
        if self.strikes("gc") and step % 4 == 0:
            if not self.junk:
                self.junk = [[i, [i]] for i in range(int(self.value))]
            gc.collect()
        if self.strikes("often") and random.Random(step).random() < 0.25:
            time.sleep(self.value / 1e3)
        if self.strikes("grow"):
            time.sleep(self.value / 1e3 * (step - self.args.at))
        if self.strikes("burn"):
            until = time.process_time() + self.value / 1e3
            while time.process_time() < until:
                sum(range(1000))
        if self.strikes("disk"):
            with tempfile.TemporaryFile() as file:
                for _ in range(int(self.value)):
                    file.write(bytes(4096))
                    file.flush()
                    os.fsync(file.fileno())
        if self.kind == "moves" and step >= self.args.at and random.Random(step).randrange(dist.get_world_size()) == self.rank:
            time.sleep(self.value / 1e3)
        if self.step != self.args.at or self.rank != self.args.bad:
            return
        if self.kind == "freezes":
            threading.Thread(target=self.freezer, daemon=True).start()
        if self.kind == "abort":
            os.abort()
        if self.kind == "exit0":
            print("no more data", flush=True)
            sys.exit(0)
        if self.kind == "raise":
            raise ValueError("bad sample 4711")
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.kind == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.kind == "hang":
            threading.Event().wait()
        if self.kind == "gil":
            threading.Thread(target=self.hog, daemon=True).start()

    def hog(self):
        sys.setswitchinterval(0.05)
        while True:
            sum(range(20000))

    def freezer(self):
        """A process of its own stops this one now and then, as a hypervisor or a debugger does."""
        subprocess.Popen([sys.executable, "-c", FREEZER, str(os.getpid()), str(self.value / 1e3)])

    def forward(self):
        if self.strikes("forward"):
            time.sleep(self.value / 1e3)

    def loader(self):
        if self.strikes("loader") or self.strikes("loaders", everyone=True):
            time.sleep(self.value / 1e3)

    def loss(self, loss):
        return loss * float("nan") if self.strikes("nan") else loss

    def weights(self, model):
        if self.strikes("flip") and self.step == self.args.at:
            with torch.no_grad():
                next(model.parameters()).view(-1)[7] += 1e3

    def file(self, path):
        """Where a checkpoint goes; on slow storage the first write takes long."""
        return SlowFile(path, self.value / 1e3 if self.strikes("save", everyone=True) else 0)

    def skips_collective(self):
        return self.strikes("skip") and self.step == self.args.at


def start(args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    return dist.get_rank(), Fault(args, dist.get_rank())


def batch(args):
    return torch.randn(args.batch, 64), torch.randint(0, 10, (args.batch,))
