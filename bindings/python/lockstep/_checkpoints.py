# SPDX-License-Identifier: Apache-2.0
"""Hooks on saving: torch.save and torch.distributed.checkpoint as phase checkpoint."""
import sys

from ._loop import CHECKPOINT, loop
from ._probe import probe
from ._wrap import wraps


def _wrap(original):
    @wraps(original)
    def save(*args, **kwargs):
        # Pickling a tensor comes here, too, with the old format: that is no checkpoint.
        if not probe.handle or kwargs.get("_use_new_zipfile_serialization") is False:
            return original(*args, **kwargs)
        if not loop.awake():  # another thread saves, while the program goes on
            probe.phase_begin(CHECKPOINT)
            try:
                return original(*args, **kwargs)
            finally:
                probe.phase_end(CHECKPOINT)
        loop.save_begin()
        try:
            return original(*args, **kwargs)
        finally:
            loop.save_end()

    return save


def _replace(modules, name):
    """One wrapper in all modules that hold the same function."""
    original = getattr(modules[0], name, None)
    if original is None:
        return
    wrapper = _wrap(original)
    for module in modules:
        if getattr(module, name, None) is original:
            setattr(module, name, wrapper)


def hook_save(module):
    _replace([module, sys.modules["torch"]], "save")


def hook_dcp(module):
    inside = [sys.modules[name] for name in (module.__name__ + ".state_dict_saver",)
              if name in sys.modules]
    for name in ("save", "async_save", "save_state_dict"):
        _replace([module] + inside, name)
