#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint costs a PyTorch training: lockstep.Checkpointer beside torch.save and torch.distributed.checkpoint.

usage: bench/ckpt_torch.py [--json] [--mb N] [--steps N] [--saves N] [--rounds N] [--dir DIR] [--device cpu|cuda]
                           [--engine NAME]...

One process trains the same model (Adam; parameters and moments together have N megabytes) for the same steps, in turns:
without saves, and with saves by each engine, in random order in each round.  All saves go to the same directory, and each is
synced: torch.save by fsync of file and directory.  Reported are medians over rounds, or over saves:

  lost_s_per_save   training seconds lost: wall time of the turn minus that of the turn without saves of the same round,
                    divided by the number of saves; what an engine writes after its last step is not part of it
  stall_s           how long the call that saves takes
  durable_gbps      bytes by the time from that call until the save is synced (lockstep: and committed)
  restore_gbps      bytes by the time to load the newest save into a new model and optimizer, with files not in the page cache;
                    what is loaded is compared bit by bit

dcp.async_save runs at its best setting, FileSystemWriter(cache_staged_state_dict=True, thread_count=8); without a GPU it cannot keep
the staged copy, since it wants to pin it.  An engine that this torch does not have is listed under "skipped".

Exit: 0 measured, 1 an engine did not load what it saved, 2 bad usage, 3 could not run.
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD") or os.path.join(SOURCE, "build")
sys.path.insert(0, os.path.join(BUILD, "bindings", "python"))
WIDTH, BATCH = 512, 8


def sync(path):
    for place in (path, os.path.dirname(path)):
        fd = os.open(place, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def forget(directory):
    """Out of the page cache: the disk is read, not memory."""
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                fd = os.open(os.path.join(place, name), os.O_RDONLY)
            except FileNotFoundError:  # of an old point that the writer removes
                continue
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


@contextlib.contextmanager
def workplace(parent):
    """A directory; a writer may still remove old points from it while it is removed."""
    place = tempfile.mkdtemp(prefix="lockstep-bench-", dir=parent)
    try:
        yield place
    finally:
        until = time.monotonic() + 60
        while os.path.exists(place) and time.monotonic() < until:
            shutil.rmtree(place, ignore_errors=True)
            time.sleep(0.01)


class Training:
    def __init__(self, torch, mb, device):
        self.torch, self.device = torch, device
        layers = max(1, round(mb * 1e6 / (3 * 4 * WIDTH * (WIDTH + 1))))
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(layers))).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(BATCH, WIDTH, device=device)
        self.step()
        self.bytes = sum(value.numel() * value.element_size() for value in self.tensors())

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.batch).pow(2).mean().backward()
        self.optimizer.step()

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def tensors(self):
        yield from self.model.state_dict().values()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if hasattr(value, "numel"))

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class TorchSave:
    name = "torch.save"

    def __init__(self, torch, directory):
        self.torch, self.path, self.durable = torch, os.path.join(directory, "state.pt"), []

    @staticmethod
    def missing(torch):
        return None

    def save(self, training, number):
        begin = time.monotonic()
        self.torch.save(training.state(), self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)
        sync(self.path)
        self.durable.append(time.monotonic() - begin)

    def finish(self):
        pass

    def load(self, training):
        training.load(self.torch.load(self.path, map_location=training.device))

    def close(self):
        pass


class DcpSave(TorchSave):
    name = "dcp.save"

    def __init__(self, torch, directory):
        import torch.distributed.checkpoint as dcp
        self.dcp, self.torch, self.directory, self.durable, self.writer = dcp, torch, directory, [], None
        self.future, self.number = None, None

    @staticmethod
    def missing(torch):
        try:
            import torch.distributed.checkpoint as dcp
        except ImportError:
            return "torch %s has no torch.distributed.checkpoint" % torch.__version__
        return None if hasattr(dcp, "async_save") else "this torch.distributed.checkpoint has no async_save"

    def _path(self, number):
        return os.path.join(self.directory, "step-%d" % number)

    def _drop(self):
        """Only the newest is kept, as by the other engines."""
        for name in os.listdir(self.directory):
            if name != "step-%d" % self.number:
                shutil.rmtree(os.path.join(self.directory, name))

    def save(self, training, number):
        begin = time.monotonic()
        self.dcp.save(training.state(), storage_writer=self.dcp.FileSystemWriter(self._path(number), thread_count=8))
        self.durable.append(time.monotonic() - begin)
        self.number = number

    def finish(self):
        self._drop()

    def load(self, training):
        whole = training.state()
        self.dcp.load(whole, storage_reader=self.dcp.FileSystemReader(self._path(self.number)))
        training.load(whole)


class DcpAsync(DcpSave):
    name = "dcp.async_save"

    def save(self, training, number):
        if self.future is not None:
            self.future.result()
        path, begin = self._path(number), time.monotonic()
        if self.writer is None:
            self.writer = self.dcp.FileSystemWriter(path, thread_count=8,
                                                    cache_staged_state_dict=self.torch.cuda.is_available())
        self.future = self.dcp.async_save(training.state(), storage_writer=self.writer, checkpoint_id=path)
        self.future.add_done_callback(lambda _: self.durable.append(time.monotonic() - begin))
        self.number = number

    def finish(self):
        if self.future is not None:
            self.future.result()
        self._drop()

    @staticmethod
    def missing(torch):
        why = DcpSave.missing(torch)
        if why is None and not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
            why = "async_save needs gloo"
        return why


class Lockstep:
    name = "lockstep"

    def __init__(self, torch, directory):
        import lockstep
        self.checkpoints, self.durable, self.saved = lockstep.Checkpointer(directory, keep=1), [], False

    @staticmethod
    def missing(torch):
        return None

    def save(self, training, number):
        self._take()
        if not self.checkpoints.save(number, model=training.model, optimizer=training.optimizer):
            raise RuntimeError("lockstep did not save: %s" % self.checkpoints.last_error)
        self.saved = True

    def _take(self):
        """The time of the save before."""
        status = self.checkpoints.status()
        if self.saved and status["write_ns"]:
            self.durable.append((status["copy_ns"] + status["write_ns"]) / 1e9)

    def finish(self):
        if not self.checkpoints.wait("verified", 600):
            raise RuntimeError(self.checkpoints.last_error)
        self._take()
        self.saved = False

    def load(self, training):
        if self.checkpoints.load_latest(model=training.model, optimizer=training.optimizer) is None:
            raise RuntimeError("lockstep found nothing: %s" % self.checkpoints.last_error)

    def close(self):
        self.checkpoints.close()


ENGINES = (TorchSave, DcpSave, DcpAsync, Lockstep)


def turn(training, engine, steps, saves, first):
    """Seconds of the turn, and of each call that saves."""
    stalls, every = [], max(1, steps // saves)
    training.wait()
    begin = time.monotonic()
    for step in range(steps):
        training.step()
        if engine is not None and step % every == every // 2 and len(stalls) < saves:
            training.wait()
            before = time.monotonic()
            engine.save(training, first + step)
            stalls.append(time.monotonic() - before)
    training.wait()
    return time.monotonic() - begin, stalls


def restore(torch, training, engine, directory, given):
    """Seconds; SystemExit if it is not what was saved."""
    fresh = Training(torch, given.mb, given.device)
    with torch.no_grad():
        for value in fresh.tensors():
            value.zero_()
    forget(directory)
    fresh.wait()
    begin = time.monotonic()
    engine.load(fresh)
    fresh.wait()
    taken = time.monotonic() - begin
    for one, other in zip(training.tensors(), fresh.tensors()):
        if not torch.equal(one, other):
            print("ckpt_torch: %s loaded something else than it saved" % engine.name, file=sys.stderr)
            sys.exit(1)
    return taken


def measure(torch, given, place):
    training = Training(torch, given.mb, given.device)
    chosen = [engine for engine in ENGINES if not given.engine or engine.name in given.engine]
    skipped = {engine.name: engine.missing(torch) for engine in chosen if engine.missing(torch)}
    engines, directories = {}, {}
    for engine in chosen:
        if engine.name not in skipped:
            directories[engine.name] = os.path.join(place, engine.name)
            os.mkdir(directories[engine.name])
            engines[engine.name] = engine(torch, directories[engine.name])
    results = {name: {"lost": [], "stall": [], "restore": []} for name in engines}
    turn(training, None, max(2, given.steps // 10), 1, 0)
    for engine in engines.values():  # the first save allocates; it is reported apart
        begin = time.monotonic()
        engine.save(training, 1)
        results[engine.name]["first"] = time.monotonic() - begin
        engine.finish()
        engine.durable.clear()
    for number in range(given.rounds):
        order = [None, *engines.values()]
        random.shuffle(order)
        plain, walls = None, {}
        for engine in order:
            wall, stalls = turn(training, engine, given.steps, given.saves, 10 + number * 2 * given.steps)
            if engine is None:
                plain = wall
                continue
            engine.finish()
            walls[engine.name] = wall
            results[engine.name]["stall"] += stalls
        for name, wall in walls.items():
            results[name]["lost"].append((wall - plain) / given.saves)
        for name, engine in engines.items():
            engine.save(training, 10 + number * 2 * given.steps + given.steps)
            engine.finish()
            results[name]["restore"].append(restore(torch, training, engine, directories[name], given))
    for engine in engines.values():
        engine.close()
    return training.bytes, skipped, {name: {
        "lost_s_per_save": statistics.median(result["lost"]), "stall_s": statistics.median(result["stall"]),
        "first_stall_s": result["first"], "durable_gbps": training.bytes / statistics.median(engines[name].durable) / 1e9,
        "restore_gbps": training.bytes / statistics.median(result["restore"]) / 1e9} for name, result in results.items()}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mb", type=float, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--engine", action="append", choices=[engine.name for engine in ENGINES])
    given = parser.parse_args()
    if given.mb <= 0 or given.saves < 1 or given.steps < 2 * given.saves or given.rounds < 1:
        parser.error("--mb must be above 0, --saves and --rounds 1 or more, --steps twice --saves or more")
    return given


def main():
    given = arguments()
    try:
        import torch
    except ImportError as error:
        print("ckpt_torch: no torch here: %s; tools/deps torch installs it" % error, file=sys.stderr)
        sys.exit(3)
    if torch.distributed.is_available() and torch.__version__ >= "2":  # async_save asks for a CPU backend
        os.environ.setdefault("USE_LIBUV", "0")
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    with workplace(given.dir) as place:
        size, skipped, engines = measure(torch, given, place)
    answer = {"bytes": size, "steps": given.steps, "saves": given.saves, "rounds": given.rounds, "device": given.device,
              "torch": torch.__version__, "load": os.getloadavg()[0], "engines": engines, "skipped": skipped}
    if given.json:
        print(json.dumps(answer, indent=2))
        return
    print("%.0f MB of state, %d saves in %d steps, %d rounds, torch %s, load %.1f" % (
        size / 1e6, given.saves, given.steps, given.rounds, torch.__version__, os.getloadavg()[0]))
    print("%-16s %16s %10s %14s %14s %14s" % ("", "lost per save s", "stall s", "first stall s", "durable GB/s", "restore GB/s"))
    for name, result in engines.items():
        print("%-16s %16.4f %10.4f %14.4f %14.2f %14.2f" % (name, *(result[key] for key in (
            "lost_s_per_save", "stall_s", "first_stall_s", "durable_gbps", "restore_gbps"))))
    for name, why in skipped.items():
        print("%-16s skipped: %s" % (name, why))


if __name__ == "__main__":
    main()
