# SPDX-License-Identifier: Apache-2.0
"""A module of the program that is called lockstep is the program's; where there is none, `import lockstep` is ours."""
import os
import shutil
import subprocess
import sysconfig

from ring import rings
from tap import BUILD, PYTHON, equal, main, test
from twice import SITE, base_env

THEIRS = "where = 'theirs'\ndef step(): return 'a step of theirs'\n"
USE = """
import lockstep, sys
print(lockstep.where, lockstep.step(), hasattr(lockstep, "recording"))
from lockstep import step
import importlib, importlib.util
print(importlib.util.find_spec("lockstep").loader.__class__.__name__, lockstep.__spec__.name)
importlib.reload(lockstep)
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def run(place, script, attached=True, **env):
    path = write(os.path.join(place, "program", "train.py"), script)
    whole = base_env(place, attached, env)
    whole["PYTHONPATH"] = ":".join(filter(None, (whole.get("PYTHONPATH"), env.get("PYTHONPATH"))))
    if attached:
        whole["PYTHONPATH"] = ":".join(filter(None, (SITE, env.get("PYTHONPATH"))))
    done = subprocess.run([PYTHON, path], env=whole, capture_output=True, text=True, cwd=place, timeout=60)
    return done.returncode, done.stdout, done.stderr


def user_site(place):
    """Where `pip install --user` would put it: after the standard library, before Debian's own packages."""
    return sysconfig.get_path("purelib", "posix_user", {"userbase": os.path.join(place, "user")})


def same(place, **env):
    bare, ours = run(place, USE, False, **env), run(place, USE, True, **env)
    equal(bare[:2], (0, "theirs a step of theirs False\n%s" % "".join(bare[1].splitlines(True)[1:])), bare[2])
    equal(ours, bare)


@test
def a_module_beside_the_script_is_the_programs(place):
    write(os.path.join(place, "program", "lockstep.py"), THEIRS)
    same(place)


@test
def a_package_on_the_path_is_the_programs(place):
    write(os.path.join(place, "lib", "lockstep", "__init__.py"), THEIRS)
    write(os.path.join(place, "lib", "lockstep", "_probe.py"), "")
    same(place, PYTHONPATH=os.path.join(place, "lib"))


@test
def an_installed_package_is_the_programs(place):
    write(os.path.join(user_site(place), "lockstep", "__init__.py"), THEIRS)
    same(place, PYTHONUSERBASE=os.path.join(place, "user"))


@test
def one_that_the_program_finds_later_is_the_programs(place):
    write(os.path.join(place, "lib", "lockstep.py"), THEIRS)
    script = "import sys; sys.path.append(%r)\n" % os.path.join(place, "lib") + USE
    equal(run(place, script, True), run(place, script, False))


@test
def a_package_without_a_file_of_its_own_is_the_programs(place):
    write(os.path.join(place, "program", "lockstep", "part.py"), "name = __name__")
    script = "import lockstep.part; print(lockstep.part.name, lockstep.__path__)"
    equal(run(place, script, True), run(place, script, False))


@test
def a_failure_of_theirs_is_theirs(place):
    write(os.path.join(place, "program", "lockstep.py"), "import nothing_of_that_name")
    script = """
for _ in range(2):
    try:
        import lockstep
    except ImportError as error:
        print(error)
"""
    bare, ours = run(place, script, False), run(place, script, True)
    equal(ours, bare)
    assert "nothing_of_that_name" in bare[1], bare


OURS = """
import sys, pickle
import lockstep
from lockstep import metric, step
import lockstep._probe, lockstep.lightning
from lockstep import transformers
from lockstep.lightning import Callback
print(lockstep._probe is sys.modules["_lockstep_attached._probe"], lockstep is sys.modules["_lockstep_attached"])
print(lockstep.lightning is sys.modules["lockstep.lightning"], transformers.Callback.__module__, step.__module__)
for missing in "lockstep.nothing", "lockstep._probe.nothing":
    try:
        __import__(missing)
    except ModuleNotFoundError as error:
        print(error)
with lockstep.step():
    metric(loss=1.0)
print(lockstep.recording())
callback = Callback()
print(type(pickle.loads(pickle.dumps(callback))) is Callback, b"attached" in pickle.dumps(callback))
"""
SAYS = """True True
True lockstep.transformers lockstep
No module named 'lockstep.nothing'
No module named 'lockstep._probe.nothing'; 'lockstep._probe' is not a package
True
True False
"""


def recorded(place, **env):
    equal(run(place, OURS, True, **env), (0, SAYS, ""))
    equal([ring.steps() for ring in rings(os.path.join(place, "rings"))], [[0]])


@test
def where_nothing_else_has_the_name_it_is_ours(place):
    recorded(place)


@test
def an_installed_copy_of_ours_is_the_one_that_is_attached(place):
    """Two of them would be two rings."""
    shutil.copytree(os.path.join(BUILD, "bindings", "python", "lockstep"), os.path.join(user_site(place), "lockstep"))
    recorded(place, PYTHONUSERBASE=os.path.join(place, "user"))


@test
def without_attaching_it_is_ours_as_well(place):
    recorded(place, LOCKSTEP_ATTACH="0")


@test
def a_program_that_asks_for_nothing_gets_nothing(place):
    equal(run(place, "import sys; print('lockstep' in sys.modules)"), (0, "False\n", ""))


main()
