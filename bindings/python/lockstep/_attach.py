# SPDX-License-Identifier: Apache-2.0
"""Attaches to a program that knows nothing of us; called by site/sitecustomize.py.

Nothing is opened here, and nothing but the standard library is imported: most Python processes under
a launcher are no ranks (the launcher's own tools, loaders' workers, compilers).  The hooks wait for the
program's own `import torch`, and the ring for the first sign of training.
"""
import atexit
import os
import sys

from . import _failures, _pauses, _where
from ._imports import imports
from ._probe import complain

# Module, and who hooks it once the program has imported it: a function of our module of that name.
# Those of torch wait until all of torch is there.
HOOKS = (
    ("torch.autograd", "_training", "hook_autograd"),
    ("torch.optim.optimizer", "_training", "hook_optimizer"),
    ("torch.cuda.amp.grad_scaler", "_training", "hook_scaler"),
    ("torch.amp.grad_scaler", "_training", "hook_scaler"),
    ("torch.nn.modules.module", "_training", "hook_module"),
    ("torch.nn.utils.clip_grad", "_training", "hook_clip"),
    ("torch.utils.data.dataloader", "_data", "hook_loader"),
    ("torch.serialization", "_checkpoints", "hook_save"),
    ("torch.distributed.checkpoint", "_checkpoints", "hook_dcp"),
    ("torch.distributed.distributed_c10d", "_collectives", "hook_c10d"),
    ("torch.nn.parallel.distributed", "_ddp", "hook_ddp"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "_ddp", "hook_fsdp"),
    ("torch.distributed.fsdp._fully_shard._fsdp_state", "_ddp", "hook_fsdp2"),
    ("torch.distributed._composable.fsdp._fsdp_state", "_ddp", "hook_fsdp2"),
    ("torch.distributed.device_mesh", "_found", "hook_mesh"),
    ("torch.distributed._tensor.device_mesh", "_found", "hook_mesh"),
    ("torch._dynamo.callback", "_compile", "hook_callback"),
    ("torch.cuda.streams", "_stamps", "hook_streams"),
    ("torch.cuda.graphs", "_graphs", "hook_graphs"),
    ("torch.distributed._functional_collectives", "_stamps", "hook_functional"),
)
OTHERS = (
    ("megatron.core.parallel_state", "_found", "hook_megatron"),
    ("megatron.mpu.initialize", "_found", "hook_megatron"),
)


def _hook(table):
    for module, ours, function in table:
        imports.when(module, _Hook(ours, function))


class _Hook:
    """Our own module is imported when it is needed, not before."""

    def __init__(self, module, function):
        self.module, self.function = module, function

    def __call__(self, target):
        from importlib import import_module
        getattr(import_module("." + self.module, __package__), self.function)(target)


def _torch_loaded(torch):
    from . import _torch
    _torch.know(torch)
    _hook(HOOKS)


# Before Python finalizes, in this order: our module, and what is called of it where it has been imported.
STOPS = (
    ("_loop", lambda module: module.loop.finish()),
    ("_ends", lambda module: module.watch.stop()),
    ("_replicas", lambda module: module.stop()),
    ("_probe", lambda module: module.probe.finish()),
    ("_pauses", lambda module: module.uninstall()),
)


def _at_exit():
    """Python runs these after its threads have been joined, the first registered last: after the program's own.

    From here on nothing of ours runs but wrappers that call torch's own functions: no thread, no callback of the
    garbage collector or of a weak reference.
    """
    for name, stop in STOPS:
        try:
            module = sys.modules.get("%s.%s" % (__package__, name))
            if module is not None:
                stop(module)
        except Exception as error:
            complain("at exit: %s: %r" % (name, error))


def attach():
    """Installs the hooks; once, and only where somebody listens."""
    if not _where.under_lockstep() or attach.done:
        return
    attach.done = True
    imports.when("torch", _torch_loaded)
    _hook(OTHERS)
    if os.environ.get("LOCKSTEP_SEAL") == "1":
        imports.when("torch", _Hook("checkpoint.seal", "hook_torch"))
    _failures.install()
    _pauses.install()
    atexit.register(_at_exit)


attach.done = False
