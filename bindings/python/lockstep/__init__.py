# SPDX-License-Identifier: Apache-2.0
"""lockstep from Python: what a rank is doing, for the agent on its node.

Under `lockstep run` a training is watched with no line changed.  What cannot be seen from outside can
be said by hand:

    with lockstep.step():
        with lockstep.phase("data"):
            batch = next(batches)
        loss = train(batch)
        lockstep.metric(loss=loss, tokens=batch.numel())

Everything here does nothing when nobody listens, and raises nothing but TypeError and ValueError for
calls that could never be right.
"""
import contextlib

from . import _layout, _where
from ._late import is_on_device, late
from ._probe import complain, probe
from ._requests import requests
from ._steps import steps

__all__ = ["Checkpointer", "CheckpointError", "Preempted", "layout", "metric", "note", "on_checkpoint_request", "phase",
           "recording", "seal_after", "step", "watch_replicas"]
__version__ = "0.1.0"

_PHASES = ("init", "comm-init", "compile", "data", "forward", "backward", "optimizer", "checkpoint",
           "eval", "gc", "other")
_METRICS = {"loss": 1, "grad_norm": 2, "tokens": 3, "length_squares": 4, "micro_batches": 5, "flop": 7}


def __getattr__(name):
    # Loaded when it is used: a training that is only observed needs nothing of it.
    if name in ("Checkpointer", "CheckpointError", "Preempted"):
        from . import checkpoint

        return getattr(checkpoint, name)
    if name == "seal_after":
        from .checkpoint import seal

        return seal.seal_after
    raise AttributeError("module 'lockstep' has no attribute %r" % name)


def recording():
    """Is this process writing a ring?"""
    return bool(probe.handle)


class step(contextlib.ContextDecorator):
    """One training step: `with lockstep.step():` around its body, data included.

    Numbers count from 0 unless given.  From the first use on, the steps that lockstep finds by
    itself are not recorded.
    """

    __module__ = "lockstep"  # whatever it is attached as

    def __init__(self, number=None):
        if number is not None and not 0 <= int(number) < 1 << 63:
            raise ValueError("a step's number is 0 or more")
        self._number = None if number is None else int(number)

    def __enter__(self):
        steps.by_hand = True
        probe.open()
        steps.begin(self._number)
        return self

    def __exit__(self, *exception):
        steps.end()
        return False


class phase(contextlib.ContextDecorator):
    """What the host is doing: `with lockstep.phase("data"):`.  Phases nest."""

    __module__ = "lockstep"

    def __init__(self, name):
        if name not in _PHASES:
            raise ValueError("%r: a phase is one of %s" % (name, ", ".join(_PHASES)))
        self._phase = _PHASES.index(name) + 1

    def __enter__(self):
        probe.open()
        probe.phase_begin(self._phase)
        return self

    def __exit__(self, *exception):
        probe.phase_end(self._phase)
        return False


def metric(**values):
    """Numbers of the step now open: loss, grad_norm, tokens, length_squares, micro_batches, flop (of this rank's model, for MFU).

    Nothing waits for a device: loss and grad_norm on one are copied behind the step and recorded a few steps
    later, other tensors there are left out.  Give `.item()` where the program has it anyway.
    """
    for name, value in values.items():
        if name not in _METRICS:
            raise TypeError("%r: a metric is one of %s" % (name, ", ".join(_METRICS)))
        place = getattr(value, "device", None)
        if name in ("loss", "grad_norm") and is_on_device(value):
            late.take(_METRICS[name], value)
            continue
        if value is None or getattr(place, "type", "cpu") != "cpu":
            continue
        try:
            probe.metric(_METRICS[name], float(value))
        except Exception as error:  # not a number; the program has its own opinion of it
            complain("metric %s: %r" % (name, error))


def layout(tp=1, pp=1, dp=None, cp=1, ep=1):
    """How the ranks are split.  Each is a size, or (index, size) where the place is not Megatron's."""
    probe.open()
    given = {"tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep}
    pairs = {name: value for name, value in given.items() if isinstance(value, (tuple, list))}
    rank, world = probe.rank, probe.world
    if rank is None:
        rank, world = _where.rank_and_world() or (0, 1)
    sizes = {name: pairs[name][1] if name in pairs else value for name, value in given.items()}
    size, index = _layout.arrange(rank, world, sizes)
    index.update({name: int(pair[0]) for name, pair in pairs.items()})
    if any(not 0 <= index[name] < size[name] for name in size):
        raise ValueError("layout: each index must be below its size")
    _layout.where.set(size, index, trust=_layout.BY_HAND)


def note(text):
    """A line for people: the first 320 bytes are kept."""
    probe.open()
    probe.note(str(text))


def on_checkpoint_request(save, agree=None):
    """Calls save(step) at the end of the step at which `lockstep request checkpoint` asks for a checkpoint.

    All ranks get the same step.  A rank that learns of it too late does not call `save` and reports so; the request
    is then repeated for a later step.  So if `save` communicates with other ranks, give `agree`: it is called at the
    end of every step with True or False, and returns whether any rank was asked, for example by an all-reduce.
    `save` returns False, or raises, if it could not save.  None ends it; without a callback requests are refused.
    """
    if save is not None and not callable(save) or agree is not None and not callable(agree):
        raise TypeError("on_checkpoint_request takes functions")
    requests.save, requests.agree = save, agree if save is not None else None


def watch_replicas(model, elements=None):
    """Digests a part of the parameters at the end of every step, so that replicas that differ show.

    `model` is a module or a list of tensors, all equal on the ranks that hold the same part of the
    model; `elements`: how many numbers a step.  Nothing waits for a device.  A second call replaces
    the first; None ends it.
    """
    from . import _replicas
    if model is None:
        _replicas.stop()
        return
    probe.open()
    _replicas.watch(model, elements)
