# SPDX-License-Identifier: Apache-2.0
"""The notes about checkpoints that a rank leaves in its ring, for the job's verdicts and metrics."""
import re

from .._probe import probe


def save_note(spans, saved_in, status):
    """One save in numbers, exactly as src/wire/save_note.c reads it."""
    us = {name: value // 1000 for name, value in spans.items() if name.endswith("_ns")}
    return ("saved checkpoint %d in step %d: %d bytes; microseconds: snapshot %d, write %d, digest %d, commit %d, verify %d; "
            "unchanged %d/%d tensors, %d/%d moments; arena %d; skipped %d, failed %d; disk %s" % (
                spans["step"], saved_in, spans["bytes"], us["copy_ns"], us["write_ns"], us["digest_ns"], us["commit_ns"],
                us["verify_ns"], spans["unchanged"], spans["tensors"], spans["moments_unchanged"], spans["moments"],
                status["arena_bytes"], status["skipped"], status["failed"], spans["disk"]))


def failed(failure, saved_in):
    """A save failed.  Since replicas are not equal: as src/judge/wrong/corrupt_saved.c reads it.  `saved_in`: steps of the ring by
    the step of the save."""
    found = re.match(r"step (\d+): ", failure)
    number = saved_in.pop(int(found.group(1)), None) if found else None
    found = re.search(r": replicas differ: tensor (.+) of rank (\d+) and rank (\d+), rows ", failure)
    if number is not None and found:
        probe.note("replicas differ in the checkpoint of step %s, saved in step %d: rank %s and rank %s, tensor %s" % (
            failure.split(":")[0][len("step "):], number, found.group(2), found.group(3), found.group(1)[:120]))


def copied(step, replicate_ns, upload_ns):
    """Copies of the point of `step` are somewhere else: src/wire/save_note.c."""
    us = [max(1, taken // 1000) if taken else 0 for taken in (replicate_ns, upload_ns)]
    probe.note("copied checkpoint %d; microseconds: replicate %d, upload %d" % (step, *us))


def restored(step):
    """The training goes on from that point: src/judge/crash/crash_point.c."""
    probe.note("restored from checkpoint of step %d" % step)


def verified(engine, step, saved_in):
    """The save of `step` was read back: what it took, and that a restart may take it."""
    spans = engine.spans()
    if spans and spans["step"] == step:
        probe.note(save_note(spans, saved_in, engine.status()))
    probe.note("checkpoint of step %d is verified, saved in step %d" % (step, saved_in))


def written(engine, step, saved_in):
    """The save of `step` is committed, and will not be read back."""
    spans = engine.spans()
    if spans and spans["step"] == step:
        probe.note(save_note(spans, saved_in, engine.status()))
