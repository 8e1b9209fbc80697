# SPDX-License-Identifier: Apache-2.0
"""`import lockstep` in a program that we are attached to.

The package is attached under a name of its own (site/sitecustomize.py), so a module or package of the program that is
called lockstep is found as it would be without us, wherever it lies.  Only where nothing else has that name, or where
what has it is an installed copy of this package, the program gets this package: the same modules, not copies of them,
since a process has one ring.
"""
import os
import sys
from importlib.machinery import ModuleSpec

NAME = "lockstep"
_OURS = os.path.dirname(os.path.abspath(__file__))
_FILES = ("_probe.py", "_attach.py", os.path.join("site", "sitecustomize.py"))


def _is_copy(spec):
    """Is it this package, installed somewhere else?"""
    return any(all(os.path.isfile(os.path.join(place, name)) for name in _FILES)
               for place in spec.submodule_search_locations or ())


class _Loader:
    """Puts the module that has been attached where import looks for the one it has made."""

    def __init__(self, ours):
        self.ours = ours  # its name

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from importlib import import_module
        sys.modules[module.__name__] = import_module(self.ours)


class Names:
    def __init__(self, package):
        self.package = package

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != NAME:
            return None
        if name == NAME:
            spec = self._found(name, path, target)
            if spec is not None and not _is_copy(spec):
                return None
            place = os.path.join(_OURS, "__init__.py")
        else:
            if sys.modules.get(NAME) is not sys.modules.get(self.package):
                return None
            place = None
        spec = ModuleSpec(name, _Loader(self.package + name[len(NAME):]), origin=place, is_package=name == NAME)
        if place:
            spec.submodule_search_locations.append(_OURS)
        elif not self._is_ours(name):
            return None
        return spec

    def _found(self, name, path, target):
        """As without us."""
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                return spec
        return None

    def _is_ours(self, name):
        from importlib.util import find_spec
        return find_spec(self.package + name[len(NAME):]) is not None


def install():
    """Before all others: who comes after us would find an installed copy first."""
    if __package__ != NAME:
        sys.meta_path.insert(0, Names(__package__))
