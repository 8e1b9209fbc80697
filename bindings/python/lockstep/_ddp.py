# SPDX-License-Identifier: Apache-2.0
"""Hooks on parallel models: DistributedDataParallel, FSDP.

DDP's reducer is C++ and calls its process group from there.  That group is watched from inside (_gloo.py), or, where
that cannot be, the reducer is given one of ours that passes everything on to the real one and marks it (_buckets.py).
So nothing of the arithmetic changes, and a communication hook of the program, registered whenever, is what runs: the
reducer does not know of us.

A method of ours in Python is called in the middle of a backward, so signals are put off for as long (_signals.py).
"""
import os
import sys
import weakref

from . import _abi, _collectives, _torch, _training
from ._buckets import make_class, run_backward, run_backward_aloud
from ._gloo import gloo
from ._groups import groups, is_data_parallel
from ._loop import loop
from ._probe import complain, probe
from ._stamps import stamps
from ._wrap import unseen, wraps


# ---- the reducer's group ----

_held = weakref.WeakKeyDictionary()  # reducer: our group, which must live as long


def _hook_reducer(package):
    original = package.Reducer
    through = make_class(package.ProcessGroup)

    @unseen
    def make(*args, **kwargs):
        ours = None
        try:
            if probe.handle and _is_wanted(*args[:4]) and groups.handle(args[3]) >= 0:
                if not gloo.watch(args[3]):
                    ours = through(args[3])
                elif _training.run_backward is None:
                    _training.run_backward = run_backward
        except Exception as error:
            complain("buckets are not recorded: %r" % (error,))
        if ours is None:
            return original(*args, **kwargs)
        reducer = original(*args[:3], ours, *args[4:], **kwargs)
        _held[reducer] = ours
        _training.run_backward = run_backward_aloud
        return reducer

    class Same(type):
        """Whoever asks whether something is a Reducer gets the true answer."""

        def __instancecheck__(cls, instance):
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass):
            return issubclass(subclass, original)

        @unseen
        def __call__(cls, *args, **kwargs):
            return make(*args, **kwargs)

    package.Reducer = Same("Reducer", (), {"__module__": original.__module__, "__doc__": original.__doc__})


def _is_wanted(parameters, _, __, group):
    if os.environ.get("LOCKSTEP_GLOO") == "off":
        return False
    # Of a model that is partly on a device, autograd has threads of its own; a method of ours must not run in them.
    if not all(parameter.is_cpu for parameter in parameters):
        return False
    return sys.modules["torch.distributed.distributed_c10d"].get_backend(group) == "gloo"


def _hook_buffers(package):
    """Buffers are sent from rank 0 in one call that returns when it is done."""
    original = package._broadcast_coalesced
    op = _abi.OPS["broadcast"]

    @wraps(original)
    def _broadcast_coalesced(group, tensors, *args, **kwargs):
        handle = probe.handle
        comm = -1
        if handle and not _torch.compiling():
            size, dtype = _collectives.measure(tensors)
            comm = -1 if size is None else groups.handle(group)
        if comm < 0:
            return original(group, tensors, *args, **kwargs)
        key = probe.library.coll_launch(handle, comm, op, size, 0, dtype)
        try:
            return original(group, tensors, *args, **kwargs)
        finally:
            probe.library.coll_end(handle, comm, key, 0)

    package._broadcast_coalesced = _broadcast_coalesced


# ---- models ----

def _hook_model(kind, replicas=False):
    original_forward, original_init = kind.forward, kind.__init__

    @wraps(original_forward)
    def forward(self, *args, **kwargs):
        if not _torch.compiling() and loop.awake():
            loop.root_forward(self.training)
        return original_forward(self, *args, **kwargs)

    @wraps(original_init)
    def __init__(self, *args, **kwargs):
        original_init(self, *args, **kwargs)
        try:
            if probe.handle and getattr(self, "process_group", None) is not None:
                is_data_parallel(self.process_group)
                stamps.reducers += replicas and getattr(self, "device_type", None) == "cuda"
        except Exception as error:
            complain("layout: %r" % (error,))
        if replicas and probe.handle and os.environ.get("LOCKSTEP_REPLICAS") == "1":
            _watch_replicas(self.module)

    kind.forward, kind.__init__ = forward, __init__


def _watch_replicas(model):
    """Parameters under DDP are equal on all its ranks; one model a process is watched, the first."""
    from . import _replicas
    try:
        if not _replicas.watching():
            _replicas.watch([one for one in model.parameters() if one.requires_grad])
    except Exception as error:
        complain("replicas are not watched: %r" % (error,))


def hook_ddp(module):
    _hook_model(module.DistributedDataParallel, replicas=True)
    package = sys.modules["torch.distributed"]
    _hook_reducer(package)
    _hook_buffers(package)


def hook_fsdp(module):
    _hook_model(module.FullyShardedDataParallel)


def hook_fsdp2(module):
    """fully_shard() has no class of its own; the state of its root is asked before each forward."""
    state = module.FSDPState
    original = state._root_pre_forward

    @wraps(original)
    def _root_pre_forward(self, module, *args, **kwargs):
        if not _torch.compiling() and loop.awake() \
                and getattr(self._state_ctx, "iter_forward_root", None) is None:
            loop.root_forward(module.training)
        return original(self, module, *args, **kwargs)

    state._root_pre_forward = _root_pre_forward
