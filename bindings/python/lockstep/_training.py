# SPDX-License-Identifier: Apache-2.0
"""Hooks on backward, optimizers, GradScaler, eval and train, and gradient clipping.

All of them are on classes and modules of torch, none on the program's objects: pickling, copying
and comparing those is as it was.
"""
import weakref

from . import _torch
from ._late import is_on_device, late
from ._layout import kind_of
from ._loop import FLOP, GRAD_NORM, LOSS, loop
from ._probe import complain, probe
from ._stamps import stamps
from ._steps import steps
from ._wrap import wraps


def _value(tensor):
    """Of a scalar that lies in host memory; reading another one would wait for its device."""
    if type(tensor) is not _torch.Tensor:
        if isinstance(tensor, float):
            return tensor
        one = isinstance(tensor, (tuple, list)) and len(tensor) == 1
        return _value(tensor[0]) if one else None
    if not tensor.is_cpu or tensor.numel() != 1:
        return None
    value = tensor.item()
    return value if type(value) is float else None


def _take_late(metric, tensor):
    """A scalar that its device has."""
    if isinstance(tensor, (tuple, list)) and len(tensor) == 1:
        tensor = tensor[0]
    if probe.handle and type(tensor) is _torch.Tensor and is_on_device(tensor):
        late.take(metric, tensor)


# ---- backward ----

run_backward = None  # (original, args, kwargs), once there is a reducer whose buckets are seen: _ddp.py


def hook_autograd(module):
    original = module.backward  # Tensor.backward comes here, too

    @wraps(original)
    def backward(*args, **kwargs):
        if _torch.compiling() or not loop.awake():
            return original(*args, **kwargs)
        loss = done = None
        of = args[0] if args else kwargs.get("tensors")
        loop.backward_begin()
        try:
            done = stamps.backward_begin(of)
            if run_backward is None:
                result = original(*args, **kwargs)
            else:
                result = run_backward(original, args, kwargs)
            loss = _value(of)
            return result
        except BaseException:
            of = None
            raise
        finally:
            if done is not None:
                stamps.backward_end(done)
            loop.backward_end(loss)
            if loss is None and of is not None:
                _take_late(LOSS, of)

    module.backward = backward


# ---- optimizers ----

_optimizers = weakref.WeakSet()


def _wrap_step(original):
    @wraps(original)
    def step(self, *args, **kwargs):
        if _torch.compiling() or not loop.awake():
            loop.captured |= loop.capturing
            return original(self, *args, **kwargs)
        loop.optimizer_begin(self)
        try:
            return original(self, *args, **kwargs)
        finally:
            if loop.tokens:
                _work.tell(self)
            loop.optimizer_end(self)

    step._lockstep = True
    return step


def hook_optimizer(module):
    """torch wraps `step` of each class when its first object is made, and we do the same after it."""
    optimizer = module.Optimizer
    name = "_patch_step_function" if hasattr(optimizer, "_patch_step_function") else "_hook_for_profile"
    original = getattr(optimizer, name)

    @wraps(original)
    def patch(self):
        original(self)
        kind = type(self)
        if not getattr(kind.step, "_lockstep", False):
            kind.step = _wrap_step(kind.step)
        _optimizers.add(self)

    setattr(optimizer, name, patch)
    original_zero = optimizer.zero_grad

    @wraps(original_zero)
    def zero_grad(self, *args, **kwargs):
        if not _torch.compiling() and loop.last is None and probe.handle and loop.awake():
            loop.zero_begin()
        return original_zero(self, *args, **kwargs)

    optimizer.zero_grad = zero_grad


def taken():
    """How many steps the optimizers say they have made: after a restart the count goes on from there."""
    most = 0
    for optimizer in list(_optimizers):
        for state in list(optimizer.state.values())[:1]:
            count = state.get("step") if hasattr(state, "get") else None
            value = _value(count) if not isinstance(count, int) else count
            most = max(most, int(value or 0))
    return most


FLOP_PER_PARAMETER = 6  # a token, forward and backward
_SPLIT = ("tp", "ep", "cp")  # of such a mesh dimension each rank computes with its part only; FSDP gathers the whole


def _computed_numbers(parameter):
    """How many numbers of it this rank computes with."""
    count = parameter.numel()
    whole = getattr(parameter, "_unpadded_unsharded_size", None)  # FSDP's first kind keeps a part of a flat one
    if whole is not None:
        return whole.numel()
    mesh = getattr(parameter, "device_mesh", None)
    for place, name in zip(getattr(parameter, "placements", ()), getattr(mesh, "mesh_dim_names", None) or ()):
        if place.is_shard() and kind_of(name) in _SPLIT:
            count //= mesh[name].size()
    return count


class _Work:
    """FLOP of a step, as formulas of MFU have them: of all parameters that optimizers have, for each token of the batch."""

    def __init__(self):
        self.seen = weakref.WeakSet()
        self.parameters = set()  # ids
        self.numbers = 0

    def add(self, optimizer):
        self.seen.add(optimizer)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self.parameters:
                    self.parameters.add(id(parameter))
                    self.numbers += _computed_numbers(parameter)

    def tell(self, optimizer):
        try:
            if optimizer not in self.seen:
                self.add(optimizer)
            if loop.tokens and loop.counted == steps.number and self.numbers:
                probe.metric(FLOP, FLOP_PER_PARAMETER * float(self.numbers) * loop.tokens)
        except Exception as error:
            complain("FLOP are not counted: %r" % (error,))
            self.tell = lambda _: None


_work = _Work()


def hook_scaler(module):
    """A GradScaler that finds infinities does not call the optimizer: its own call ends the step then."""
    scaler = module.GradScaler
    original = scaler.__dict__.get("step")
    if original is None:  # inherits from the other one
        return

    @wraps(original)
    def step(self, optimizer, *args, **kwargs):
        if _torch.compiling() or not loop.awake():
            return original(self, optimizer, *args, **kwargs)
        loop.optimizer_begin(optimizer)
        try:
            return original(self, optimizer, *args, **kwargs)
        finally:
            loop.optimizer_end(optimizer)

    scaler.step = step


# ---- eval and train ----

def _is_trained(module):
    """Does an optimizer have one of its parameters?  A frozen teacher's eval() is no eval loop."""
    held = {id(parameter) for optimizer in list(_optimizers)
            for group in getattr(optimizer, "param_groups", ()) for parameter in group["params"]}
    return any(id(parameter) in held for parameter in module.parameters())


def hook_module(module):
    kind = module.Module
    original_eval, original_train = kind.eval, kind.train

    @wraps(original_eval)
    def eval(self):
        if not _torch.compiling() and probe.handle and loop.awake() and not loop.evaluating \
                and self.training and _is_trained(self):
            loop.eval_begin()
        return original_eval(self)

    @wraps(original_train)
    def train(self, mode=True):
        if mode and loop.evaluating and not _torch.compiling() and loop.awake() \
                and not self.training and _is_trained(self):
            loop.eval_end()
        return original_train(self, mode)

    kind.eval, kind.train = eval, train


# ---- clipping ----

def hook_clip(module):
    import sys
    original = module.clip_grad_norm_

    @wraps(original)
    def clip_grad_norm_(*args, **kwargs):
        norm = original(*args, **kwargs)
        if not _torch.compiling() and probe.handle and loop.awake():
            value = _value(norm)
            if value is not None:
                probe.metric(GRAD_NORM, value)
            else:
                _take_late(GRAD_NORM, norm)
        return norm

    module.clip_grad_norm_ = clip_grad_norm_
    utils = sys.modules.get("torch.nn.utils")
    if getattr(utils, "clip_grad_norm_", None) is original:
        utils.clip_grad_norm_ = clip_grad_norm_
