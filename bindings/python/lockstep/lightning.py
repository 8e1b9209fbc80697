# SPDX-License-Identifier: Apache-2.0
"""A callback for Lightning: `Trainer(callbacks=[lockstep.lightning.Callback()])`.

Where the package is installed by pip, Lightning finds it by itself under `lockstep run` (entry points
lightning.pytorch.callbacks_factory and pytorch_lightning.callbacks_factory).  A step is one of the
trainer's global steps: with accumulate_grad_batches=4 it has four batches.

`Checkpoint("ckpt", interval="auto")` is a callback that saves and resumes with lockstep.Checkpointer.

Can be imported without Lightning; its classes are then like any other.
"""
import sys

from . import _where
from ._trainer import Trainer


def _base():
    """Callback of the Lightning that the program uses; both packages may be installed."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return __import__(name, fromlist=["Callback"]).Callback
        except Exception:  # not here, or broken
            continue
    return object


class Callback(_base()):
    """replicas=True: parameters are compared between ranks, a part every step."""

    __module__ = "lockstep.lightning"  # what is pickled must be found without an attached lockstep, too

    def __init__(self, replicas=False):
        super().__init__()
        self._trainer = Trainer(replicas)
        self._step = None  # trainer.global_step when the step now open began

    def on_train_start(self, trainer, pl_module):
        self._trainer.train_begin(pl_module)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx, *args):
        if self._step is None:
            self._step = trainer.global_step
            self._trainer.step_begin(self._step)
        self._trainer.phase("forward")

    def on_before_backward(self, trainer, pl_module, loss):
        self._trainer.phase("backward")

    def on_after_backward(self, trainer, pl_module):
        self._trainer.phase(None)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer, *args):
        self._trainer.phase("optimizer")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *args):
        if self._step is not None and trainer.global_step > self._step:
            self._step = None
            self._trainer.step_end(_loss(outputs))
        else:
            self._trainer.phase(None)

    def on_validation_start(self, trainer, pl_module):
        self._trainer.phase("eval")

    def on_validation_end(self, trainer, pl_module):
        self._trainer.phase(None)

    def on_train_end(self, trainer, pl_module):
        self._step = None
        self._trainer.train_end()

    def on_exception(self, trainer, pl_module, exception):
        self._trainer.phase(None)


class Checkpoint(_base()):
    """Resumes from the newest point and saves at the end of optimizer steps; takes what lockstep.Checkpointer takes.

    Saved are the module, the optimizers, the schedulers, the random number generators and the progress of the loops.  It replaces
    ModelCheckpoint for resuming; give no `ckpt_path` to fit() with it.
    """

    __module__ = "lockstep.lightning"

    def __init__(self, directory, **settings):
        super().__init__()
        self._settings = dict(settings, directory=directory)
        self._checkpoints = self._step = None

    def on_fit_start(self, trainer, pl_module):
        from .checkpoint import Checkpointer

        self._checkpoints, self._step = Checkpointer(**self._settings), trainer.global_step
        found = self._checkpoints.load_latest(model=pl_module)
        if found is None:
            return
        for optimizer, state in zip(trainer.optimizers, found.state["optimizer"]):
            optimizer.load_state_dict(state)
        for config, state in zip(trainer.lr_scheduler_configs, found.extra["schedulers"]):
            config.scheduler.load_state_dict(state)
        trainer.fit_loop.load_state_dict(found.extra["loops"])
        self._step = found.step

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *args):
        if self._checkpoints is None or trainer.global_step <= self._step:
            return  # gradients are still being accumulated
        self._step = trainer.global_step
        self._checkpoints.step(self._step, model=pl_module, optimizer=_States(trainer.optimizers), extra=lambda: {
            "schedulers": [config.scheduler.state_dict() for config in trainer.lr_scheduler_configs],
            "loops": trainer.fit_loop.state_dict()})

    def teardown(self, trainer, pl_module, stage=None):
        if self._checkpoints is not None:
            self._checkpoints.close()
            self._checkpoints = None


class _States:
    """The states of several optimizers, asked for when they are saved."""

    def __init__(self, optimizers):
        self._optimizers = optimizers

    def state_dict(self):
        return [optimizer.state_dict() for optimizer in self._optimizers]


def _loss(outputs):
    if isinstance(outputs, dict):
        outputs = outputs.get("loss")
    return outputs if getattr(outputs, "numel", lambda: 0)() == 1 or isinstance(outputs, float) else None


def callbacks():
    """For Lightning's entry points: a callback, if the process runs under lockstep."""
    return [Callback()] if _where.under_lockstep() else []
