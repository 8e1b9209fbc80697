# SPDX-License-Identifier: Apache-2.0
"""The few things of torch that the hooks ask for, known once torch has been imported."""

from . import _abi


_never = bool  # called, it says False, and no frame is made for that

grad_enabled = _never
# True while torch.compile traces.  The hooks' functions ask it first: the tracer knows it as a constant
# and so traces the original alone.  Without that our calls would break the graph, or with
# fullgraph=True the program.
compiling = _never
Tensor = ()
dtypes = {}  # torch.dtype: its number in the ring
TORCH_NAMES = {"float8_e4m3": "float8_e4m3fn"}


def know(torch):
    global grad_enabled, compiling, Tensor
    for name, number in _abi.DTYPES.items():
        known = getattr(torch, TORCH_NAMES.get(name, name), None)  # an older torch does not have all of them
        if isinstance(known, torch.dtype):
            dtypes[known] = number
    grad_enabled = torch.is_grad_enabled
    Tensor = torch.Tensor
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _never)
