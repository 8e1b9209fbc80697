# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a training, saved off its path: lockstep.Checkpointer and what belongs to it.

| file | contents |
|---|---|
| `checkpointer.py` | the class; start here |
| `engine.py` | the C interface (include/lockstep/ckpt.h) over ctypes |
| `state.py` | nested state as tensors and a description, and back |
| `shards.py` | parts of distributed tensors: DTensor |
| `sources.py` | brings points that are missing here from other nodes and object stores |
| `schedule.py` | when to save: intervals, requests, notices |
| `dcp.py` | a StorageWriter and StorageReader for torch.distributed.checkpoint |
| `seal.py`, `seal_child.py` | seals what torch.save and torch.distributed.checkpoint write |
"""
from .checkpointer import Checkpoint, Checkpointer
from .engine import CheckpointError
from .schedule import Preempted

__all__ = ["Checkpoint", "CheckpointError", "Checkpointer", "Preempted"]
