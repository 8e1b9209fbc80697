# SPDX-License-Identifier: Apache-2.0
"""torch.compile at work, as phase compile: from the start of a frame's compilation to its end."""
from ._loop import COMPILE
from ._probe import probe


def _start(*_):
    probe.phase_begin(COMPILE)


def _end(*_):
    probe.phase_end(COMPILE)


def hook_callback(module):
    """torch 2.4 and later tell who asks; before them compilation is not seen."""
    module.on_compile_start(_start)
    module.on_compile_end(_end)
