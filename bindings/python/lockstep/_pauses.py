# SPDX-License-Identifier: Apache-2.0
"""Pauses of the garbage collector as phase gc: full collections only.

The young generations are collected many times a step in microseconds; a full collection of a training
program with millions of objects stops it for a good part of a second.
"""
import gc

from ._probe import probe

PHASE_GC = 10


def _callback(phase, info):
    if info["generation"] >= 2 and probe.handle:
        if phase == "start":
            probe.phase_begin(PHASE_GC)
        else:
            probe.phase_end(PHASE_GC)


def install():
    gc.callbacks.append(_callback)


def uninstall():
    if _callback in gc.callbacks:
        gc.callbacks.remove(_callback)
