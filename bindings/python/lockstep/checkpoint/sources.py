# SPDX-License-Identifier: Apache-2.0
"""Where copies of points are: on other nodes (`lockstep ckpt serve`) and in object stores (`lockstep ckpt push`).

Before ranks load, the first rank of each node lists what its sources have.  If the newest point that every node has, or can get, is
missing on a node or was refused there, that rank brings it with `lockstep ckpt mirror` or `pull`, which commit it after they have read
back and compared every file.  So a node that lost its disk, or takes the place of another one, needs no hand.
"""
import json
import shlex
import subprocess
import sys
import tempfile
import time

from .seal import program

LIST_S = 120  # for the answer of a source
ROUND_S = 20  # the other ranks wait in rounds, so that no collective of theirs runs out of time
STEPS_MOST = 256  # of each node, the newest


def _command(source):
    return "pull" if source[0].startswith("s3://") else "mirror"


def _points(source, text):
    """What --dry-run --json prints: pull one object, mirror one for each point."""
    if _command(source) == "pull":
        return json.loads(text)["points"]
    return [json.loads(line) for line in text.splitlines()]


def _steps_of(source, text):
    """What another machine has written: nothing but whole numbers comes out."""
    steps = [point["step"] for point in _points(source, text)]
    return [step for step in steps if type(step) is int and 0 <= step < 1 << 64]


def _printable(text):
    return "".join(letter if letter.isprintable() else "?" for letter in text)


class Sources:
    """`texts`: as Checkpointer has them; `node`: the number of this node; `leads`: this rank gets what the node lacks."""

    def __init__(self, texts, directory, node, leads):
        texts = [texts] if isinstance(texts, str) else list(texts or [])
        self._sources = [shlex.split(text.replace("{node}", str(node))) for text in texts]
        if not all(self._sources):
            raise ValueError("a source is the address of lockstep ckpt serve, or s3://BUCKET/PREFIX, and options")
        self._directory, self._node, self._leads = directory, node, leads

    def __bool__(self):
        return bool(self._sources)

    def _say(self, source, text):
        lines = text.strip().splitlines() or ["no answer"]
        sys.stderr.write("lockstep: %s: %s\n" % (source[0], _printable(lines[-1])))

    def _argv(self, source, *options):
        path = program()
        if path is None:
            raise FileNotFoundError("no program lockstep; LOCKSTEP_PROGRAM names one")
        return [path, "ckpt", _command(source), *source[1:], *options, source[0], self._directory]

    def _listed(self, source, child):
        """The steps that a source has, from the child that has asked it."""
        try:
            if not child.good():
                self._say(source, child.why())
                return []
            return _steps_of(source, child.answer())
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._say(source, str(error))
            return []

    def _steps(self, agree):
        """By step the sources that have it.  All are asked at the same time."""
        until, found = time.monotonic() + LIST_S, {}
        waiting = [(source, self._start(source, "--dry-run", "--json")) for source in self._sources if self._leads]
        waiting = [(source, child) for source, child in waiting if child is not None]
        while any(agree(bool(waiting))):
            end = min(time.monotonic() + ROUND_S, until)
            for source, child in list(waiting):
                if child.ended(max(0.0, end - time.monotonic())):
                    for step in self._listed(source, child):
                        found.setdefault(step, []).append(source)
                elif time.monotonic() >= until:
                    child.kill()
                    self._say(source, "no answer in %d s" % LIST_S)
                else:
                    continue
                waiting.remove((source, child))
        return {step: sorted(sources, key=self._sources.index) for step, sources in found.items()}

    def _start(self, source, *options):
        try:
            return _Child(self._argv(source, *options))
        except OSError as error:
            self._say(source, str(error))
            return None

    def _bring(self, step, sources, agree):
        """All ranks wait until it is there, or cannot be brought."""
        waiting, child = list(sources), None
        while True:
            if waiting and child is None:
                child = self._start(waiting[0], "--step", str(step))
            if waiting and (child is None or child.ended(ROUND_S)):
                source, done = waiting.pop(0), child
                if done is not None:
                    self._say(source, "step %d is copied from there" % step if done.good() else done.why())
                    waiting = [] if done.good() else waiting
                child = None
            if not any(agree(bool(waiting))):
                return

    def complete(self, have, vetoed, agree):
        """All ranks call it.  `have`: steps of the points here; `agree`: what each rank says, by rank."""
        there = self._steps(agree)
        nodes = {}
        for node, steps in agree((self._node, sorted({*have, *there})[-STEPS_MOST:])):
            nodes.setdefault(node, set()).update(steps)
        step = max(set.intersection(*nodes.values()) - set(vetoed), default=None)
        if step is not None:
            self._bring(step, there.get(step, []) if step not in have else [], agree)


class _Child:
    def __init__(self, argv):
        self._answer, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self._answer, stderr=self._errors)

    def ended(self, seconds):
        try:
            self._process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def good(self):
        return self._process.returncode == 0

    def kill(self):
        self._process.kill()
        self._process.wait()

    def answer(self):
        self._answer.seek(0)
        return self._answer.read().decode(errors="replace")

    def why(self):
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")
