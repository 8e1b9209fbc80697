# SPDX-License-Identifier: Apache-2.0
# Python imports this by itself at start: `lockstep run` puts its directory first on PYTHONPATH.
#
# It attaches lockstep, takes its own directory from sys.path again and then does what Python would
# have done without us: imports the sitecustomize that comes next, if there is one.  Whatever goes
# wrong with lockstep, the program does not notice.  Old Pythons read this file, too.
import os
import sys


# Not "lockstep": a program may have a module of that name.  What `import lockstep` finds is in _names.py.
NAME = "_lockstep_attached"


def _attach(package):
    if sys.version_info < (3, 9):
        return
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(NAME, os.path.join(package, "__init__.py"),
                                   submodule_search_locations=[package])
    module = module_from_spec(spec)
    sys.modules[NAME] = module
    finders = list(sys.meta_path)
    try:
        spec.loader.exec_module(module)
        from _lockstep_attached import _names
        _names.install()
        if os.environ.get("LOCKSTEP_ATTACH") != "0":
            from _lockstep_attached import _attach as attachment
            attachment.attach()
    except BaseException:
        for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
            del sys.modules[name]
        sys.meta_path[:] = finders
        raise


def _run():
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        _attach(os.path.dirname(here))
    except Exception as error:
        if os.environ.get("LOCKSTEP_DEBUG") == "1":
            sys.stderr.write("lockstep: python: not attached: %r\n" % (error,))
    sys.path[:] = [path for path in sys.path
                   if not path or os.path.abspath(path) != here]
    # Not ours any more: the name belongs to the one that comes next.
    del sys.modules["sitecustomize"]
    # Where there is none, that is for Python to hear: it knows what to do, and that no module came of this one.
    import sitecustomize  # noqa: F401


_run()
