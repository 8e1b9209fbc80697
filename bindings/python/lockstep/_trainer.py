# SPDX-License-Identifier: Apache-2.0
"""What the callbacks for trainers share: a trainer knows its steps, so it says them.

Where lockstep is attached, its hooks see the rest (data, forward, backward, optimizer, checkpoints,
evaluation); else the callbacks mark of it what their trainer tells them.
"""
from . import _abi
from ._late import is_on_device, late
from ._probe import complain, probe
from ._steps import steps


def attached():
    """Do the hooks watch this process?"""
    import sys
    module = sys.modules.get(__package__ + "._attach")
    return module is not None and module.attach.done


class Trainer:
    """One of them speaks at a time: a callback may be given by hand and be found by an entry point, too."""

    __module__ = "lockstep._trainer"

    speaker = None

    def __init__(self, replicas):
        self.replicas = replicas
        self.open = None  # the phase that we have begun

    def silent(self):
        return Trainer.speaker is not None and Trainer.speaker is not self

    def train_begin(self, model):
        if self.silent():
            return
        Trainer.speaker = self
        probe.open()
        steps.by_hand = True  # from here on: the first batch is fetched before the trainer's first step
        if self.replicas and model is not None:
            from . import _replicas
            try:
                _replicas.watch(model)
            except Exception as error:
                complain("replicas are not watched: %r" % (error,))

    def step_begin(self, number):
        if self.silent():
            return
        steps.by_hand = True
        steps.begin(int(number))

    def step_end(self, loss=None):
        if self.silent():
            return
        self.phase(None)
        if is_on_device(loss):
            late.take(_abi.METRICS["loss"], loss)
        elif loss is not None and getattr(getattr(loss, "device", None), "type", "cpu") == "cpu":
            try:
                probe.metric(_abi.METRICS["loss"], float(loss))
            except (TypeError, ValueError):
                pass
        steps.end()

    def phase(self, name):
        """Ends our open phase and begins this one; None: none."""
        if attached() or self.silent():
            return
        if self.open:
            probe.phase_end(self.open)
        self.open = _abi.PHASES[name] if name else None
        if self.open:
            probe.phase_begin(self.open)

    def train_end(self):
        if self.silent():
            return
        self.phase(None)
        Trainer.speaker = None
        if steps.by_hand:
            steps.end()
        if self.replicas:
            from . import _replicas
            _replicas.stop()
