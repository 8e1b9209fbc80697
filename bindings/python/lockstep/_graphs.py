# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: what is called while one is captured happens at each replay instead.

A graph in which an optimizer stepped ends a step when it is replayed, as the optimizer's own call would.
"""
from ._loop import loop
from ._stamps import stamps
from ._wrap import wraps


def hook_graphs(module):
    kind = module.CUDAGraph
    original_begin, original_end, original_replay = kind.capture_begin, kind.capture_end, kind.replay
    stepping = set()  # ids of graphs in which an optimizer stepped

    @wraps(original_begin)
    def capture_begin(self, *args, **kwargs):
        result = original_begin(self, *args, **kwargs)
        stepping.discard(id(self))
        loop.captured, loop.capturing, stamps.capturing = False, True, True
        return result

    @wraps(original_end)
    def capture_end(self, *args, **kwargs):
        loop.capturing = stamps.capturing = False
        result = original_end(self, *args, **kwargs)
        if loop.captured:
            stepping.add(id(self))
        return result

    @wraps(original_replay)
    def replay(self, *args, **kwargs):
        if id(self) not in stepping or not loop.awake():
            return original_replay(self, *args, **kwargs)
        loop.replay_begin(self)
        try:
            return original_replay(self, *args, **kwargs)
        finally:
            loop.replay_end(self)

    kind.capture_begin, kind.capture_end, kind.replay = capture_begin, capture_end, replay
