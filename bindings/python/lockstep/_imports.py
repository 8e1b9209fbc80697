# SPDX-License-Identifier: Apache-2.0
"""Calls us back when a module has been imported by the program.

We import nothing that the program does not.  A finder before all others lets them find the module
and wraps its loader for the one moment of loading; before the module's own code runs, its spec is
as it would have been without us.
"""
import sys

from ._probe import complain


class _Loader:
    """Stands for the real loader until the module has been loaded."""

    def __init__(self, loader, done):
        self._loader = loader
        self._done = done

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._done(module)


class Imports:
    def __init__(self):
        self._wanted = {}
        self._installed = False

    def when(self, name, call):
        """Calls call(module) once, when `name` has been imported; now, when it has been already."""
        module = sys.modules.get(name)
        if module is not None and not _is_loading(module):
            _safely(call, module)
            return
        self._wanted.setdefault(name, []).append(call)
        if not self._installed:
            self._installed = True
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self._wanted:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                break
        else:
            return None
        if spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self._loaded)
        return spec

    def _loaded(self, module):
        for call in self._wanted.pop(module.__name__, ()):
            _safely(call, module)


def _is_loading(module):
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def _safely(call, module):
    try:
        call(module)
    except Exception as error:  # this hook does not fit this version; the program is untouched
        complain("%s is not hooked: %r" % (module.__name__, error))


imports = Imports()
