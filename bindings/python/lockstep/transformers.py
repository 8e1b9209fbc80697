# SPDX-License-Identifier: Apache-2.0
"""A callback for Hugging Face's Trainer: `trainer.add_callback(lockstep.transformers.Callback)`.

A step is one of the trainer's global steps: with gradient_accumulation_steps=4 it has four batches.
The loss is what the trainer logs, so it comes with the steps that are logged.

`Checkpoint("ckpt", interval="auto")` is a callback that saves and resumes with lockstep.Checkpointer.

Can be imported without transformers; its classes are then like any other.
"""
from ._trainer import Trainer
from ._probe import probe
from . import _abi


def _base():
    try:
        from transformers import TrainerCallback
        return TrainerCallback
    except Exception:  # not here, or broken
        return object


class Callback(_base()):
    """replicas=True: parameters are compared between ranks, a part every step."""

    __module__ = "lockstep.transformers"  # what is pickled must be found without an attached lockstep, too

    def __init__(self, replicas=False):
        super().__init__()
        self._trainer = Trainer(replicas)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        self._trainer.train_begin(model)

    def on_step_begin(self, args, state, control, **kwargs):
        self._trainer.step_begin(state.global_step)

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self._trainer.phase("optimizer")

    def on_optimizer_step(self, args, state, control, **kwargs):
        self._trainer.phase(None)

    def on_step_end(self, args, state, control, **kwargs):
        self._trainer.step_end()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self._trainer.silent():
            return
        for name, metric in (("loss", "loss"), ("grad_norm", "grad_norm")):
            value = (logs or {}).get(name)
            if isinstance(value, (int, float)):
                probe.metric(_abi.METRICS[metric], float(value))

    def on_train_end(self, args, state, control, **kwargs):
        self._trainer.train_end()


class Checkpoint(_base()):
    """Resumes from the newest point and saves at the end of steps; takes what lockstep.Checkpointer takes.

    Saved are the model, the optimizer, the scheduler, the random number generators and the number of the step.  The Trainer does not
    let a callback skip data: after a resume it starts its epoch again, so use a data set that is drawn at random, or one that
    keeps its own place.
    """

    __module__ = "lockstep.transformers"

    def __init__(self, directory, **settings):
        super().__init__()
        self._settings = dict(settings, directory=directory)
        self._checkpoints = None

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **kwargs):
        from .checkpoint import Checkpointer

        self._checkpoints = Checkpointer(**self._settings)
        found = self._checkpoints.load_latest(model=model, optimizer=optimizer)
        if found is not None:
            state.global_step = found.step
            if lr_scheduler is not None and found.extra["scheduler"] is not None:
                lr_scheduler.load_state_dict(found.extra["scheduler"])

    def on_step_end(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **kwargs):
        if self._checkpoints is not None:
            self._checkpoints.step(state.global_step, model=model, optimizer=optimizer, extra=lambda: {
                "scheduler": lr_scheduler.state_dict() if lr_scheduler is not None else None})

    def on_train_end(self, args, state, control, **kwargs):
        if self._checkpoints is not None:
            self._checkpoints.close()
            self._checkpoints = None
