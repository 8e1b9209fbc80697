# SPDX-License-Identifier: Apache-2.0
"""lockstep.Checkpointer: saves and loads the state of a training."""
import contextlib
import json
import os
import random
import sys
import time

from .._loop import loop
from .._probe import probe
from .._steps import steps
from . import report, schedule, shards, state
from .engine import CheckpointError, Engine, Part
from .sources import Sources

BLOB = "python.state"
FORMAT = 1
COPIES = 4  # newest points whose copies elsewhere are looked for


class _Generators:
    """The random number generators of Python, NumPy and torch."""

    def __init__(self, torch):
        self.torch = torch

    def get(self):
        torch, now = self.torch, {"python": random.getstate(), "torch": self.torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            now["cuda"] = torch.cuda.get_rng_state_all()
        if "numpy" in sys.modules:
            name, keys, *rest = sys.modules["numpy"].random.get_state()
            now["numpy"] = [name, keys.tobytes(), *rest]
        return now

    def set(self, saved):
        torch = self.torch
        random.setstate(saved["python"])
        torch.set_rng_state(saved["torch"])
        if "cuda" in saved and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(saved["cuda"])
        if "numpy" in saved and "numpy" in sys.modules:
            numpy = sys.modules["numpy"]
            name, keys, *rest = saved["numpy"]
            numpy.random.set_state((name, numpy.frombuffer(keys, dtype=numpy.uint32), *rest))


def _tensors(value, torch):
    """All tensors of nested state."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value


@contextlib.contextmanager
def _phase():
    """The training waits for a checkpoint: in the ring, if there is one."""
    if not probe.handle or not loop.awake():
        yield
        return
    loop.save_begin()
    try:
        yield
    finally:
        loop.save_end()


class Checkpoint:
    """A point that was loaded: its `step`, what was given as `extra`, and all of the `state`."""

    __module__ = "lockstep"

    def __init__(self, step, loaded):
        self.step, self.extra, self.state = step, loaded["extra"], loaded


class Checkpointer:
    """Saves and loads checkpoints off the training path.

        checkpoints = lockstep.Checkpointer("ckpt")
        found = checkpoints.load_latest(model=model, optimizer=optimizer)
        first = found.step + 1 if found else 0
        for step in range(first, steps):
            ...
            if step % 100 == 0:
                checkpoints.save(step, model=model, optimizer=optimizer, extra={"sampler": sampler.state_dict()})

    `keep_every`: points whose step is a multiple of it stay as well.  `node_ranks`: the directory is on a disk of the node, and so
    many ranks of this node save into it; 0: all ranks share it.  `arena_hold`: seconds for which the copy of the last save stays in
    memory if the program dies without close(), so that its next start on this machine loads from there.  `sources`: where copies of
    this directory are, the same list on all ranks: "https://HOST:PORT" of `lockstep ckpt serve` or "s3://BUCKET/PREFIX", each followed by
    options of `lockstep ckpt mirror` or `pull`; {node} in it is the number of the node.  load_latest() brings from there what is missing.

    `model`, `optimizer`: objects with state_dict(), or state of any nesting, such as {"a": a.state_dict()}.  Saves the
    random number generators of Python, NumPy and torch as well, and loads them.  `replicated=True`: all ranks have equal
    parameters and optimizers (DistributedDataParallel), and each saves one slice of them; a save fails, with the name of the tensor,
    if they are not equal (`compare=False`: that is not looked at).  Buffers are each rank's own.  `keep`: how many verified points stay.  `bytes_per_s`: limit for the writer of
    each rank; 0: none.

    Instead of save() at times of its own, a program may call step() at the end of every step.  It saves every `interval` steps, or
    as often as it pays (`interval="auto"`; `mtbf`: the expected seconds between two failures of the job), at the step that
    `lockstep request checkpoint` names, and when a notice comes that the job will be ended: one of the signals `notices`, or Slurm's
    time limit in `margin` seconds.  After a notice it raises Preempted, a SystemExit with `requeue_status`.
    """

    __module__ = "lockstep"

    def __init__(self, directory, rank=None, world=None, keep=0, replicated=False, verify=True, interval=None, mtbf=None,
                 notices="auto", margin=120, requeue_status=schedule.REQUEUE_STATUS, keep_every=0, node_ranks=0, arena_hold=0,
                 sources=None, bytes_per_s=0, compare=True):
        import torch

        if interval is not None and interval != "auto" and (not isinstance(interval, int) or interval < 1):
            raise ValueError("interval is a number of steps, \"auto\" or None")
        if mtbf is not None and not 0 < mtbf < 1e11:
            raise ValueError("mtbf is a number of seconds above 0")
        self._torch, self._generators = torch, _Generators(torch)
        ranks = torch.distributed if torch.distributed.is_available() and torch.distributed.is_initialized() else None
        self._ranks = ranks if ranks and ranks.get_world_size() > 1 else None
        self.rank = (self._ranks.get_rank() if self._ranks else 0) if rank is None else rank
        self.world = (self._ranks.get_world_size() if self._ranks else 1) if world is None else world
        self._replicated, self._compare = replicated, compare
        self.last_error = ""
        self._begun = None  # entries and their versions, between begin() and fence()
        job = self._agree(int.from_bytes(os.urandom(7), "little") | 1)[0] if self._ranks else 0
        self._engine = Engine(directory, self.rank, self.world, job, keep, verify, node_ranks, keep_every, arena_hold,
                              bytes_per_s)
        self._apart = 0 < node_ranks < self.world
        self._together = together = node_ranks or self.world
        self._sources = Sources(sources, os.fspath(directory), self.rank // together, self.rank % together == 0)
        self._unsaid = True
        self._final = "verified" if verify else "written"  # the last stage of a save that its writer reports
        self._step_begun, self._saved_in = None, {}  # steps that are not verified yet: the number of the step in the ring
        self._copies = {}  # steps whose copies elsewhere are not noted so far: what is known of them
        self._failure = ""  # of the newest save that failed
        self._complete = -1  # the newest step that all ranks have verified, as far as this one knows
        self._history = schedule.History()
        self._interval, self._notices = interval, (notices, margin)
        self._auto = schedule.Auto(self.world, mtbf, self._engine.interval) if interval == "auto" else None
        self._meeting = schedule.Meeting(self._ranks, self.rank, self.world, job)
        self._watch = self._asked = self._step_s = self._step_at = None  # from the first step() on
        self._requeue_status = requeue_status

    def _agree(self, value):
        """What each rank has, by rank."""
        if not self._ranks:
            return [value]
        values = [None] * self.world
        self._ranks.all_gather_object(values, value)
        return values

    def _failed(self):
        self.last_error = self._engine.error
        return False

    # ---- saving ----

    def _trained(self, model, entries):
        """The names of parameters and of the optimizer's tensors.  Of state that is no module, all count as parameters."""
        parameters = getattr(model, "parameters", None)
        places = {shards.local(tensor).data_ptr() for tensor in parameters()} if callable(parameters) else None
        return {name for name, entry in entries.items()
                if name.startswith("optimizer.")
                or name.startswith("model.") and (places is None or entry.given.data_ptr() in places)}

    def _later(self, trained, entries):
        """The tensors that must not change before fence(): parameters and the optimizer's, whose copy may take
        until then.  All others (buffers, counters of steps, generators) are copied when begin() returns.
        """
        return {name: entry for name, entry in entries.items()
                if name in trained and (entry.given.dim() or name.startswith("model."))}

    def _traced(self, optimizer):
        """The tensors that this optimizer changes, if torch counts their changes.  Captured graphs and fused kernels leave no trace,
        and those of other packages need not: what they may change is copied when begin() returns."""
        groups = getattr(optimizer, "param_groups", None)
        if not groups or not type(optimizer).__module__.startswith("torch.optim") or any(
                group.get("capturable") or group.get("fused") for group in groups):
            return set()
        return {shards.local(tensor).data_ptr() for group in groups for tensor in group["params"]}

    def _part(self, entry, trained, later):
        stored = entry.stored(self._torch)
        if entry.place:
            if stored.shape != entry.given.shape or stored.dtype != entry.given.dtype:
                raise CheckpointError("%s: a DTensor of %s with %d dimensions cannot be saved" % (
                    entry.name, entry.given.dtype, entry.given.dim()))
            return Part(stored, later=later, **entry.place.engine())
        if self._replicated and trained:
            return Part(stored, replicas=self.world, replica=self.rank, later=later, compare=self._compare)
        return Part(stored, later=later)

    def _described(self, model, optimizer, extra):
        """The description as bytes; the tensors, and their versions; those that may be copied until the fence; all as the engine
        takes them."""
        describe = state.Describe(self._torch)
        whole = {"random": self._generators.get(), "extra": extra}
        for name, part in (("model", model), ("optimizer", optimizer)):
            whole[name] = part.state_dict() if hasattr(part, "state_dict") else part
        described = {name: describe(part, name) for name, part in whole.items()}
        text = json.dumps({"format": FORMAT, "world": self.world, "history": self._history.saved(),
                           "state": described}).encode()
        versions = {name: entry.version() for name, entry in describe.entries.items()}
        trained = self._trained(model, describe.entries)
        later = self._later(trained, describe.entries)
        traced = self._traced(optimizer)
        lazily = {name for name, entry in later.items()
                  if traced and (name.startswith("optimizer.") or entry.given.data_ptr() in traced)}
        parts = {name: self._part(entry, name in trained, name in lazily) for name, entry in describe.entries.items()}
        return text, describe.entries, versions, later, parts

    def prepare(self, model=None, optimizer=None, extra=None):
        """Allocates the memory for the copies of what save() will be given; with tensors on a GPU it returns at once, and the memory
        is allocated and registered with the driver in the background.  Call it after the first step, when the optimizer has its
        state; step() does.  Optional: the first save waits for it otherwise.  Returns whether it began."""
        with _phase():
            parts = self._described(model, optimizer, extra)[-1]
            return self._engine.register(parts) and self._engine.prepare() or self._failed()

    def begin(self, step, model=None, optimizer=None, extra=None):
        """The first half of save(): returns whether it began.  Until fence(), parameters and the tensors of the optimizer
        must not change; everything else is copied when this returns."""
        with _phase():
            return self._begin(step, model, optimizer, extra)

    def _begin(self, step, model, optimizer, extra):
        if self._begun is not None:
            self.cancel("begin() was called twice")
        text, entries, versions, later, parts = self._described(model, optimizer, extra)
        engine = self._engine
        if not (engine.register(parts) and engine.blob_set(BLOB, text) and engine.begin(step)):
            return self._failed()
        self._begun = entries, versions, parts  # the tensors live until the fence
        self._step_begun = step
        changed = self._changed()
        if changed:
            self.cancel("tensor %s changed during the copy" % changed)
            return False
        self._begun = later, versions, parts
        self._look_compared(parts)
        return True

    def _look_compared(self, parts):
        """Says once if there is no memory for it."""
        if self._unsaid and self._together > 1 and any(part.compare for part in parts.values()) and not self.status()["compared"]:
            self._unsaid = False
            sys.stderr.write("lockstep: rank %d: replicas are not compared: no memory for the copy of one more slice\n" % self.rank)

    def _changed(self):
        entries, versions, _ = self._begun
        return next((name for name, entry in entries.items() if entry.version() != versions[name]), None)

    def fence(self):
        """The second half of save(): whether the copy is whole.  All tensors may change after it.

        False if a tensor changed since begin(): the save is dropped, and `last_error` names the tensor.  Changes that torch
        does not count are not seen: those through `.data`, NumPy, or a captured graph.
        """
        if self._begun is None:
            self.last_error = "no save has begun"
            return False
        changed = self._changed()
        if changed:
            self.cancel("tensor %s changed before the fence" % changed)
            return False
        with _phase():
            done = self._engine.fence() or self._failed()
        self._begun = None  # the tensors are not needed any more
        if done and probe.handle:
            self._saved_in[self._step_begun] = steps.next - 1 if steps.number is None else steps.number
        self._observe()
        self._look_copied()
        return done

    def _observe(self):
        """What the writer has verified since: for the job's verdicts, and with disks of the nodes for the other ranks."""
        if not probe.handle and not self._apart:
            return
        status = self.status()
        done, failure = status[self._final], status["failure"]
        if failure != self._failure:
            self._failure = failure
            report.failed(failure, self._saved_in)
        if done in self._saved_in:
            getattr(report, self._final)(self._engine, done, self._saved_in[done])
            self._saved_in = {step: number for step, number in self._saved_in.items() if step > done}
            if self.rank % self._together == 0:  # a copy is of all ranks
                self._copies[done] = 0, 0
        self._completed()

    def _look_copied(self):
        """Notes what copies of the newest points took.  Looks into the directory, so once for each save."""
        for step, known in list(self._copies.items()):
            found = self._engine.copies(step)
            if found and found != known:
                report.copied(step, *found)
                self._copies[step] = found
            if found is None or all(found) or step < max(self._copies) and len(self._copies) > COPIES:
                del self._copies[step]

    def _completed(self):
        """With disks of the nodes: tells the others what this rank has verified, and the writer what all have."""
        if not self._apart:
            return
        step = self._meeting.complete(self.status()["verified"])
        if step > self._complete:
            self._complete = step
            self._engine.complete(step)

    def cancel(self, why="cancelled"):
        """Drops the save that has begun."""
        self._begun = None
        self._engine.cancel(why)
        self.last_error = why

    def save(self, step, model=None, optimizer=None, extra=None):
        """Copies the state; returns whether the save began.  What is copied may change as soon as it returns.

        False, with the reason in `last_error`, if the disk has not finished the saves before, or a tensor changed during
        the copy.  Raises only for state that cannot be described.
        """
        return self.begin(step, model, optimizer, extra) and self.fence()

    # ---- saving when it is time ----

    def step(self, step, model=None, optimizer=None, extra=None):
        """Call it at the end of every step, with what save() takes; `extra` may be a function.  Returns whether it saved."""
        if self._watch is None:
            self._watch, self._asked = schedule.Notices(*self._notices), schedule.Asked()
            if self._torch.cuda.is_initialized():
                self.prepare(model, optimizer, extra() if callable(extra) else extra)
        now = time.monotonic()
        if self._step_at is not None:
            self._step_s = now - self._step_at
        self._step_at = now
        if self._saved_in or self._apart and self.status()["verified"] != self._meeting.verified:
            self._observe()
        reason, request = self._watch.look(), self._asked.due()
        stop = self._meeting.stop(step, reason is not None, self._step_s or 1.0)
        due = self._auto.due(step) if self._auto else bool(self._interval) and (step + 1) % self._interval == 0
        if not (stop or due or request):
            return False
        self._history.orderly = stop
        given = {"model": model, "optimizer": optimizer, "extra": extra() if callable(extra) else extra}
        saved = self._save_timed(step, given)
        if request:
            self._asked.served(request, saved)
        if stop:
            self._leave(step, given, saved, reason or "a notice of another rank")
        if self._auto and due:
            self._auto.plan(step, self.status()["write_ns"] / 1e9, self._history, self._meeting)
        return saved

    def _save_timed(self, step, given):
        begin = time.monotonic()
        saved = self.save(step, **given)
        if self._auto and saved:
            self._auto.cost(time.monotonic() - begin)
        return saved

    def _leave(self, step, given, saved, reason, limit=30):
        """Saves, also if the disk is still busy with the save before, and ends the program."""
        until = time.monotonic() + limit
        while not saved and time.monotonic() < until:
            self.wait(timeout=max(0.1, min(1, until - time.monotonic())))
            saved = self.save(step, **given)
        written = saved and self.wait(timeout=max(0.1, until - time.monotonic()))
        if self.rank == 0:
            sys.stderr.write("lockstep: %s: step %d is %s; exiting with status %d to be queued again\n" % (
                reason, step, "saved" if written else "not saved: %s" % self.last_error, self._requeue_status))
        self.close()
        raise schedule.Preempted(self._requeue_status)

    def wait(self, stage="written", timeout=None):
        """Until the last save is "written", "verified", "replicated" (another node has it: lockstep ckpt mirror) or "uploaded"
        (lockstep ckpt push); whether it is."""
        with _phase():  # the training waits
            done = self._engine.wait(stage, timeout) or self._failed()
        self._observe()
        self._look_copied()
        return done

    def status(self):
        return self._engine.status()

    # ---- loading ----

    def steps(self):
        """The steps of committed points, newest first."""
        return self._engine.steps()

    def _tensor_parts(self, described, meshes, equal):
        """An empty part for each tensor that is described.  `equal`: whether all ranks must have saved the same, by name and shape."""
        parts, places = {}, {}
        for name, dtype, shape, place in state.tensors_of(described):
            if name in parts:
                continue
            if place:
                places[name] = place = meshes.place(place, name)
                parts[name] = Part(self._torch.empty(place.local, dtype=getattr(self._torch, dtype)), **place.engine())
            else:
                compare = equal(name, shape)
                dtype, shape = state.stored_form(self._torch, dtype, shape)
                parts[name] = Part(self._torch.empty(shape, dtype=dtype), compare=compare)
        return parts, places

    def _restore(self, step, meshes, parameters):
        """The state of that point.  The description first, then the tensors that it names."""
        engine, torch, ready = self._engine, self._torch, {}
        engine.register({})
        text = engine.blob_get(BLOB) if engine.restore(step) else None
        if text is None:
            raise CheckpointError(engine.error)
        whole = json.loads(text)
        if whole.get("format") != FORMAT:
            raise CheckpointError("step %d has a description of format %r, expected %d" % (step, whole.get("format"), FORMAT))
        described = {"d": [[name, part] for name, part in whole["state"].items()]}
        # With another number of ranks: parameters of one name that differ are parts of a model (experts, stages), not replicas.
        elastic = whole["world"] != self.world
        parts, places = self._tensor_parts(described, meshes, lambda name, shape: elastic and (
            name in parameters or name.startswith("optimizer.") and len(shape) > 0))
        if not (engine.register(parts) and engine.restore(step)):
            raise CheckpointError(engine.error)

        def tensor(name, dtype, shape, place):
            if name not in ready:
                local = parts[name].tensor
                ready[name] = shards.rebuild(torch, local, places[name]) if place else state.true_form(
                    torch, local, dtype, shape)
            return ready[name]

        loaded = state.read(described, tensor, torch)
        return loaded, whole

    def _try(self, step, meshes, parameters):
        """None, with the reason in `last_error`: the other ranks must learn of it, whatever it is."""
        try:
            return self._restore(step, meshes, parameters)
        except Exception as error:
            self.last_error = str(error) or repr(error)
            return None

    def _meshes(self, model, optimizer):
        given = list(model.parameters()) if hasattr(model, "parameters") else model
        groups = [group["params"] for group in getattr(optimizer, "param_groups", [])]
        return shards.Meshes(_tensors([given, groups], self._torch))

    def _say(self, text):
        if self.rank == 0:
            sys.stderr.write("lockstep: %s\n" % text)

    def _none(self, vetoed):
        """No point is left that all ranks could load; the same answer on all of them."""
        steps, (damaged, refused) = self.steps(), self._engine.refused()
        reasons = ["step %d: %s" % item for item in sorted(vetoed.items(), reverse=True)] + [
            "step %d: %s" % item for item in refused if not item[1].startswith("not committed")] + [
            "step %d: another rank does not have it" % step for step in steps if step not in vetoed]
        found = self._agree(reasons[0] if damaged > 0 or steps or vetoed else None)
        if any(found):
            raise CheckpointError("no checkpoint can be loaded: " + next(reason for reason in found if reason))
        return None

    def load_latest(self, model=None, optimizer=None):
        """Loads the newest point that every rank can load; returns it (`step`, `extra`, `state`), or None if there is none.  With
        `sources`, a point that is missing or damaged on a node is brought from there first.

        A point that a rank cannot load is vetoed, with the reason on stderr, and the next older one is taken, by all ranks; one
        with wrong checksums is refused for good.  If there are points but none can be loaded, CheckpointError is raised: whether
        to start from step 0 is for a person to decide.  Objects with load_state_dict() are loaded; the state of other objects is
        in the answer.
        """
        vetoed, meshes = {}, self._meshes(model, optimizer)
        parameters = {"model." + name for name, _ in model.named_parameters()} if hasattr(model, "named_parameters") else set()
        again = set()  # loaded once in vain; a source may have another copy
        while True:
            if self._sources:
                self._sources.complete(self.steps(), vetoed, self._agree)
            steps = [step for step in self.steps() if step not in vetoed]
            named = self._agree(steps[0] if steps else None)
            if None in named:
                return self._none(vetoed)
            step = min(named)
            loaded = self._try(step, meshes, parameters)
            answers = self._agree(None if loaded is not None else self.last_error)
            if not any(answers):
                break
            if self._sources and step not in again:
                again.add(step)
                continue
            rank, why = next((rank, why) for rank, why in enumerate(answers) if why)
            why = why[len("step %d: " % step):] if why.startswith("step %d: " % step) else why
            vetoed[step] = "rank %d: %s" % (rank, why) if self.world > 1 else why
            self._say("step %d is not loaded: %s" % (step, vetoed[step]))
        for lost, why in self._engine.refused()[1]:
            if lost > step and lost not in vetoed:
                self._say("step %d is not loaded: %s" % (lost, why))
        loaded, whole = loaded
        self._history = schedule.History(whole["history"])
        for name, part in (("model", model), ("optimizer", optimizer)):
            if hasattr(part, "load_state_dict"):
                part.load_state_dict(loaded[name])
        if whole["world"] == self.world:  # else two ranks would draw the same numbers
            self._generators.set(loaded["random"])
        report.restored(step)
        return Checkpoint(step, loaded)

    def close(self):
        """The writer finishes what was saved."""
        if self._watch is not None:
            self._watch.close()
            self._asked.close()
            self._watch = None
        self._look_copied()
        self._engine.close()
