#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint costs a PyTorch training: lockstep.Checkpointer beside torch.save and torch.distributed.checkpoint.

usage: bench/ckpt_torch.py [--json] [--mb N] [--width N] [--batch N] [--steps N] [--saves N] [--rounds N] [--dir DIR]
                           [--device cpu|cuda] [--engine NAME]...

One process trains the same model (Adam; parameters and moments together have N megabytes) for the same steps, in turns:
without saves, and with saves by each engine, in random order in each round.  All saves go to the same directory, and each is
synced: torch.save by fsync of file and directory.  Reported are medians over rounds, or over saves:

  lost_s_per_save   training seconds lost: wall time of the turn minus that of the turn without saves of the same round,
                    divided by the number of saves; what an engine writes after its last step is not part of it
  stall_s           how long the call that saves takes; lockstep.begin: the calls of begin() and fence()
  durable_gbps      bytes by the time from that call until the save is synced (lockstep: and committed)
  speed_writing     speed of the steps that run while a save is being written (lockstep: or read back), relative to the turn
                    without saves; null if no step did
  verified_s        lockstep: from the call until the save is synced, committed and read back with equal checksums
  restore_gbps      bytes by the time to load the newest save into a new model and optimizer, with files not in the page cache;
                    what is loaded is compared bit by bit

Engine "lockstep" calls save() after a step; "lockstep.begin" calls begin() there and fence() before the next optimizer step, so
that the copy from a GPU runs beside forward and backward pass.  Limits of the same run are under "limits": gpu_copy_gbps (from the
GPU into pinned memory), raw_write_gbps and raw_read_gbps (O_DIRECT; one thread or four, whichever is faster).

dcp.async_save runs at its best setting, FileSystemWriter(cache_staged_state_dict=True, thread_count=8); without a GPU it cannot keep
the staged copy, since it wants to pin it.  An engine that this torch does not have is listed under "skipped".

SIGTERM ends the measurement: what is known by then is printed, with "interrupted".

Exit: 0 measured, 1 an engine did not load what it saved, 2 bad usage, 3 could not run.
"""
import argparse
import contextlib
import json
import mmap
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD") or os.path.join(SOURCE, "build")
if not os.path.isdir(os.path.join(BUILD, "bindings")):  # a folder of tools/gpu-bundle
    BUILD = SOURCE
sys.path.insert(0, os.path.join(BUILD, "bindings", "python"))
RAW_PIECE = 16 << 20
RAW_BYTES = 2 << 30


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
    def __init__(self, torch, given):
        self.torch, self.device, width = torch, given.device, given.width
        layers = max(1, round(given.mb * 1e6 / (3 * 4 * width * (width + 1))))
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(*(torch.nn.Linear(width, width, device=self.device) for _ in range(layers)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.batch = torch.randn(given.batch, width, device=self.device)
        self.before_update = None  # called once, before the optimizer changes what is saved
        self.step()
        self.bytes = sum(value.numel() * value.element_size() for value in self.tensors())

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.batch).pow(2).mean().backward()
        if self.before_update:
            self.before_update()
            self.before_update = None
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

    def prepare(self, training):
        pass

    def busy(self):
        """A save is being written beside the training."""
        return False

    def details(self):
        return {}

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
                shutil.rmtree(os.path.join(self.directory, name), ignore_errors=True)

    def _drop_beside(self):
        """So that the disk suffices; beside the training, as our writer does it."""
        if self.number is not None:
            before = self.number
            names = [name for name in os.listdir(self.directory) if name != "step-%d" % before]
            threading.Thread(target=lambda: [shutil.rmtree(os.path.join(self.directory, name), ignore_errors=True)
                                             for name in names]).start()  # the thread of the save before may still remove it

    def save(self, training, number):
        self._drop_beside()
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
        self._drop_beside()
        path, begin = self._path(number), time.monotonic()
        if self.writer is None:
            self.writer = self.dcp.FileSystemWriter(path, thread_count=8,
                                                    cache_staged_state_dict=self.torch.cuda.is_available())
        self.future = self.dcp.async_save(training.state(), storage_writer=self.writer, checkpoint_id=path)
        self.future.add_done_callback(lambda _: self.durable.append(time.monotonic() - begin))
        self.number = number

    def busy(self):
        return self.future is not None and not self.future.done()

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
        self.checkpoints, self.durable, self.verified, self.number = lockstep.Checkpointer(directory, keep=1), [], [], None

    @staticmethod
    def missing(torch):
        return None

    def prepare(self, training):
        self.checkpoints.prepare(model=training.model, optimizer=training.optimizer)

    def save(self, training, number):
        self._take()
        self._began(self.checkpoints.save(number, model=training.model, optimizer=training.optimizer))
        self.number = number

    def _began(self, whether):
        if not whether:
            raise RuntimeError("lockstep did not save: %s" % self.checkpoints.last_error)

    def _take(self):
        """The time of the save before."""
        status = self.checkpoints.status()
        if self.number is not None and status["write_ns"]:
            self.durable.append((status["copy_ns"] + status["fence_wait_ns"] + status["write_ns"]) / 1e9)

    def busy(self):
        return self.number is not None and self.checkpoints.status()["verified"] != self.number

    def finish(self):
        if not self.checkpoints.wait("verified", 600):
            raise RuntimeError(self.checkpoints.last_error)
        self._take()
        if self.number is not None:
            self.verified.append(self.durable[-1] + self.checkpoints.status()["verify_ns"] / 1e9)
        self.number = None

    def details(self):
        status = self.checkpoints.status()
        return {"verified_s": median(self.verified), "skipped": status["skipped"], "failed": status["failed"],
                "io": status["io"], "device": status["device"], "writer_cpu_s": status["writer_cpu_ns"] / 1e9}

    def load(self, training):
        if self.checkpoints.load_latest(model=training.model, optimizer=training.optimizer) is None:
            raise RuntimeError("lockstep found nothing: %s" % self.checkpoints.last_error)

    def close(self):
        self.checkpoints.close()


class LockstepBegin(Lockstep):
    name = "lockstep.begin"

    def save(self, training, number):
        self._take()
        begin = time.monotonic()
        self._began(self.checkpoints.begin(number, model=training.model, optimizer=training.optimizer))
        self.number, self.begin_s = number, time.monotonic() - begin
        training.before_update = self._fence

    def _fence(self):
        begin = time.monotonic()
        self._began(self.checkpoints.fence())
        self.stall_s = self.begin_s + time.monotonic() - begin

    def finish(self):
        if self.checkpoints._begun is not None:  # no step came after the save
            self._fence()
        super().finish()


ENGINES = (TorchSave, DcpSave, DcpAsync, Lockstep, LockstepBegin)


# ---- limits ----

def raw_part(path, size, number, count, write, failures):
    """Every `count`th piece of a file, past the page cache."""
    try:
        piece = mmap.mmap(-1, RAW_PIECE)
        piece[:] = os.urandom(1 << 16) * (RAW_PIECE >> 16)
        fd = os.open(path, (os.O_WRONLY if write else os.O_RDONLY) | os.O_DIRECT)
        try:
            for at in range(number * RAW_PIECE, size, count * RAW_PIECE):
                done = os.pwrite(fd, piece, at) if write else os.preadv(fd, [piece], at)
                if done != RAW_PIECE:
                    raise OSError("%d bytes instead of %d" % (done, RAW_PIECE))
            if write:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        failures.append(error)


def raw_gbps(path, size, count, write):
    failures, begin = [], time.monotonic()
    threads = [threading.Thread(target=raw_part, args=(path, size, number, count, write, failures)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return size / (time.monotonic() - begin) / 1e9


def limits(torch, given, size, place, into):
    """Adds one measurement of each limit."""
    if given.device == "cuda":
        source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        into.setdefault("pinned", torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True))
        torch.cuda.synchronize()
        begin = time.monotonic()
        into["pinned"].copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        into.setdefault("gpu_copy_gbps", []).append((1 << 30) / (time.monotonic() - begin) / 1e9)
        del source
    path, size = os.path.join(place, "raw"), max(4, min(size, RAW_BYTES) // RAW_PIECE) * RAW_PIECE
    try:
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        for key, write in ("raw_write_gbps", True), ("raw_read_gbps", False):
            into.setdefault(key, []).append(max(raw_gbps(path, size, count, write) for count in (1, 4)))
    except OSError as error:  # a file system that refuses O_DIRECT
        into["raw_refused"] = str(error)
    finally:
        os.unlink(path)


# ---- measuring ----

def rate(size, times):
    return size / statistics.median(times) / 1e9 if times else None


class Interrupted(Exception):
    """SIGTERM came: what was measured so far is printed."""


def interrupt(*_):
    raise Interrupted


def median(values):
    return statistics.median(values) if values else None


def say(given, text):
    if given.progress:
        print("%.1f s: %s" % (time.monotonic() - given.begin, text), file=sys.stderr, flush=True)


def turn(training, engine, steps, saves, first):
    """Seconds of the turn; of each call that saves; of each step beside which a save was written."""
    stalls, beside, every = [], [], max(1, steps // saves)
    training.wait()
    begin = time.monotonic()
    saved = False
    for step in range(steps):
        before, busy = time.monotonic(), engine is not None and engine.busy()
        training.step()
        training.wait()
        if busy and not saved and engine.busy():
            beside.append(time.monotonic() - before)
        if saved and hasattr(engine, "stall_s"):
            stalls[-1] = engine.stall_s
        saved = engine is not None and step % every == every // 2 and len(stalls) < saves
        if saved:
            before = time.monotonic()
            engine.save(training, first + step)
            stalls.append(time.monotonic() - before)
    return time.monotonic() - begin, stalls, beside


def restore(torch, training, engine, directory, given):
    """Seconds; SystemExit if it is not what was saved."""
    fresh = Training(torch, given)
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


def first_save(training, engine, result, given):
    """Of a program that prepares it after its first step: steps run while the memory is being allocated and pinned."""
    say(given, "%s: first save" % engine.name)
    engine.prepare(training)
    begin, steps = time.monotonic(), 0
    while steps < 2 or time.monotonic() - begin < given.prepare_s:
        training.step()
        training.wait()
        steps += 1
    result["preparing_step_s"] = (time.monotonic() - begin) / steps
    begin = time.monotonic()
    engine.save(training, 1)
    result["first"] = time.monotonic() - begin
    if training.before_update:
        training.step()
        training.wait()
        result["first"] = engine.stall_s
    engine.finish()
    engine.durable.clear()


def round_run(training, engines, results, number, given):
    """One turn of each, in random order."""
    order = [None, *engines.values()]
    random.shuffle(order)
    walls, besides = {}, {}
    plain = None
    for engine in order:
        say(given, "round %d: %s" % (number + 1, engine.name if engine else "without saves"))
        wall, stalls, beside = turn(training, engine, given.steps, given.saves, 10 + number * 2 * given.steps)
        if engine is None:
            plain = wall
            say(given, "without saves: turn %.2f s" % wall)
            continue
        engine.finish()
        walls[engine.name], besides[engine.name] = wall, beside
        say(given, "%s: turn %.2f s, stalls %s, durable %s s" % (engine.name, wall, stalls, engine.durable))
        results[engine.name]["stall"] += stalls
    for name, wall in walls.items():
        results[name]["lost"].append((wall - plain) / given.saves)
        if besides[name]:
            results[name]["speed"].append(plain / given.steps / statistics.mean(besides[name]))
    return plain


def measure(torch, given, place):
    training, ceiling = Training(torch, given), {}
    chosen = [engine for engine in ENGINES if not given.engine or engine.name in given.engine]
    skipped = {engine.name: engine.missing(torch) for engine in chosen if engine.missing(torch)}
    engines, directories = {}, {}
    for engine in chosen:
        if engine.name not in skipped:
            directories[engine.name] = os.path.join(place, engine.name)
            os.mkdir(directories[engine.name])
            engines[engine.name] = engine(torch, directories[engine.name])
    results = {name: {"lost": [], "stall": [], "restore": [], "speed": []} for name in engines}
    turn(training, None, max(2, given.steps // 10), 1, 0)
    limits(torch, given, training.bytes, place, ceiling)
    say(given, "limits %s" % {key: value for key, value in ceiling.items() if key != "pinned"})
    plain = turn(training, None, max(2, given.steps // 10), 1, 0)[0] / max(2, given.steps // 10)
    for name, engine in list(engines.items()):  # the first save allocates; it is reported apart
        try:
            first_save(training, engine, results[name], given)
        except Exception as error:  # another release of torch may want to be called otherwise
            skipped[name] = "its first save failed: %r" % error
            del engines[name], results[name]
    interrupted = False
    try:
        for number in range(given.rounds):
            round_run(training, engines, results, number, given)
            limits(torch, given, training.bytes, place, ceiling)
            for name, engine in engines.items():
                say(given, "round %d: %s: restore" % (number + 1, name))
                engine.save(training, 10 + number * 2 * given.steps + given.steps)
                engine.finish()
                training.before_update = None
                results[name]["restore"].append(restore(torch, training, engine, directories[name], given))
    except Interrupted:
        interrupted = True
    ceiling.pop("pinned", None)
    answer = {name: {
        "lost_s_per_save": median(result["lost"]), "stall_s": median(result["stall"]), "first_stall_s": result["first"],
        "durable_gbps": rate(training.bytes, engines[name].durable), "restore_gbps": rate(training.bytes, result["restore"]),
        "speed_writing": median(result["speed"]), "speed_preparing": plain / result["preparing_step_s"],
        **engines[name].details()} for name, result in results.items()}
    for engine in engines.values():
        engine.close()
    return training.bytes, skipped, answer, {
        key: median(values) if isinstance(values, list) else values for key, values in ceiling.items()}, interrupted


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mb", type=float, default=64)
    parser.add_argument("--width", type=int, default=512, help="of each layer")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prepare-s", type=float, default=0, help="seconds of training between the first step and the first save")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--saves", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--progress", action="store_true", help="on stderr")
    parser.add_argument("--engine", action="append", choices=[engine.name for engine in ENGINES])
    given = parser.parse_args()
    given.begin = time.monotonic()
    if min(given.width, given.batch) < 1:
        parser.error("--width and --batch must be 1 or more")
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
        signal.signal(signal.SIGTERM, interrupt)
        size, skipped, engines, ceiling, interrupted = measure(torch, given, place)
    answer = {"bytes": size, "steps": given.steps, "saves": given.saves, "rounds": given.rounds, "device": given.device,
              "torch": torch.__version__, "load": os.getloadavg()[0], "engines": engines, "skipped": skipped,
              "limits": ceiling, "interrupted": interrupted}
    if given.json:
        print(json.dumps(answer, indent=2))
        return
    print("%.0f MB of state, %d saves in %d steps, %d rounds, torch %s, load %.1f" % (
        size / 1e6, given.saves, given.steps, given.rounds, torch.__version__, os.getloadavg()[0]))
    print("%-16s %16s %10s %14s %14s %14s" % ("", "lost per save s", "stall s", "first stall s", "durable GB/s", "restore GB/s"))
    for name, result in engines.items():
        print("%-16s %16s %10s %14s %14s %14s" % (name, *("-" if result[key] is None else form % result[key] for key, form in (
            ("lost_s_per_save", "%.4f"), ("stall_s", "%.4f"), ("first_stall_s", "%.4f"), ("durable_gbps", "%.2f"),
            ("restore_gbps", "%.2f")))))
    print("limits: %s" % ", ".join("%s %s" % (key, "%.2f" % value if isinstance(value, float) else value)
                                  for key, value in ceiling.items()))
    for name, why in skipped.items():
        print("%-16s skipped: %s" % (name, why))


if __name__ == "__main__":
    main()
