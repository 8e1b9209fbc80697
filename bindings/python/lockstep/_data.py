# SPDX-License-Identifier: Apache-2.0
"""Hooks on the DataLoader: asking its iterator for a batch is waiting for input.

With workers and prefetch the wait is what is left of loading; without workers it is loading itself.
Making the iterator starts the workers, and persistent ones only begin again.  In a
worker's process nothing is recorded: it is no rank.
"""
from ._loop import DATA, loop
from ._probe import probe
from ._wrap import wraps


class _Lengths:
    """How many batches the iterator has that was asked last: its length is that of a loader, a sampler and a dataset."""

    def __init__(self):
        self.known, self.length = None, 0  # by address: it must not live longer for us

    def is_ending(self, iterator):
        """Has it given all its batches?  Then this is not the fetch of a step."""
        try:
            given = iterator._num_yielded
            if 0 < given < self.length and self.known == id(iterator):
                return False
            self.known, self.length = None, len(iterator)  # a new one, or it may have become longer
            self.known = id(iterator)
            return given >= self.length
        except Exception:  # a stream: nobody knows
            return False


_is_ending = _Lengths().is_ending


def hook_loader(module):
    iterator = module._BaseDataLoaderIter
    original = iterator.__next__

    @wraps(original)
    def __next__(self):
        if not loop.awake():
            return original(self)
        loop.fetch_begin(self, _is_ending(self))
        batch, ended = None, True
        try:
            batch = original(self)
            ended = False
            return batch
        finally:
            loop.fetch_end(self, batch, ended)

    if iterator.__dict__.get("next") is original:
        iterator.next = __next__
    iterator.__next__ = __next__
    _hook_start(module.DataLoader)


def _hook_start(loader):
    original = loader.__iter__

    @wraps(original)
    def __iter__(self):
        if not probe.handle or not loop.awake() or loop.fetching:
            return original(self)
        loop.loader_begin()
        probe.phase_begin(DATA)
        try:
            return original(self)
        finally:
            probe.phase_end(DATA)

    loader.__iter__ = __iter__
