# SPDX-License-Identifier: Apache-2.0
"""`pip install .` from the tree, and a wheel that any Python of this architecture can use."""
import glob
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile

from ring import rings
from tap import PACKAGE, PYTHON, SOURCE, equal, main, test

TALK = """
import lockstep, lockstep._abi, sys
with lockstep.step():
    lockstep.metric(loss=0.5)
print(lockstep.recording(), lockstep._abi.load().path)
"""
PIP = ("--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check", "-q")
compiled = tempfile.NamedTemporaryFile(prefix="lockstep-p.", suffix=".so")  # by the wheel: once is enough


def need_pip():
    missing = [name for name in ("pip", "setuptools", "venv", "wheel")
               if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("CI") == "true":
        print("Bail out! CI has no %s for %s" % (", ".join(missing), PYTHON))
        sys.exit(1)
    if missing:
        print("1..0 # SKIP no %s here; tools/deps test installs it" % ", ".join(missing))
        sys.exit(0)


def run(*command, **options):
    env = {name: value for name, value in os.environ.items()
           if name not in ("PYTHONPATH", "LOCKSTEP_LIB", "LOCKSTEP_DIR", "LOCKSTEP_RUN")}
    env.update(options.pop("env", {}))
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, timeout=100, **options)
    assert done.returncode == 0, "%r: %s" % (command, done.stdout)
    return done.stdout


def tree(place):
    """The files that packaging takes, somewhere it may write."""
    copy = os.path.join(place, "tree")
    os.makedirs(os.path.join(copy, "tools"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "LICENSE", "meson.build", "tools/embed"):
        shutil.copy(os.path.join(SOURCE, name), os.path.join(copy, name))
    for name in ("include", "bindings", "src/core", "src/wire", "src/device/cuda", "src/probe"):
        shutil.copytree(os.path.join(SOURCE, name), os.path.join(copy, name),
                        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return copy


def heard(python, place, **env):
    """A program that talks leaves a ring with what it said; returns where its library was."""
    directory = os.path.join(place, "rings-%d" % len(os.listdir(place)))
    said, library = run(python, "-c", TALK, cwd=place, env=dict(
        env, LOCKSTEP_DIR=directory, RANK="1", WORLD_SIZE="2")).split()
    equal(said, "True")
    equal([(ring.rank, ring.steps(), ring.metrics("loss")) for ring in rings(directory)],
          [(1, [0], [(0, 0.5)])])
    return library


def virtual(place):
    """A Python of its own, with the system's setuptools: there may be no network."""
    home = os.path.join(place, "venv")
    run(PYTHON, "-m", "venv", "--system-site-packages", "--without-pip", home)
    return home, os.path.join(home, "bin", "python")


def inside_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def inside(path, home):
    return os.path.realpath(path).startswith(os.path.realpath(home) + os.sep)


@test
def one_wheel_serves_every_python_of_the_architecture(place):
    run(PYTHON, "-m", "pip", "wheel", *PIP, "-w", place, tree(place), cwd=place)
    (wheel,) = glob.glob(os.path.join(place, "*.whl"))
    tag = os.path.basename(wheel).split("-", 2)[2]
    equal(tag, "py3-none-manylinux_2_17_%s.whl" % platform.machine())
    equal(inside_wheel(wheel), {os.path.relpath(path, PACKAGE) for path in glob.glob(
        os.path.join(PACKAGE, "lockstep", "**", "*.py"), recursive=True)} |
        {"lockstep/liblockstep.so.0"})
    home, python = virtual(place)
    run(python, "-m", "pip", "install", *PIP, wheel, cwd=place)
    library = heard(python, place)
    assert inside(library, home)
    shutil.copy(library, compiled.name)
    others = {shutil.which(name) for name in ("python3", "python3.9", "python3.10", "python3.11",
                                              "python3.12", "python3.13", "python3.14")}
    for other in sorted(others - {None}):
        new = subprocess.run([other, "-c", "import sys; sys.exit(sys.version_info < (3, 9))"],
                             stderr=subprocess.DEVNULL)
        if new.returncode == 0:
            path = os.path.dirname(os.path.dirname(library))
            equal(heard(other, place, PYTHONPATH=path), library)


@test
def pip_install_from_the_tree_takes_a_library_that_is_built(place):
    home, python = virtual(place)
    with open(compiled.name, "rb") as file:
        text = file.read()
    # The wheel's own; alone, this test compiles as that one does.
    run(python, "-m", "pip", "install", *PIP, tree(place), cwd=place,
        env={"LOCKSTEP_LIB": compiled.name} if text else {})
    library = heard(python, place)
    assert inside(library, home)
    with open(library, "rb") as file:
        assert text in (b"", file.read())


@test
def without_a_compiler_it_says_what_to_do(place):
    copy = tree(place)
    env = dict(os.environ, CC="no-such-compiler")
    done = subprocess.run([PYTHON, "setup.py", "build_py"], cwd=copy, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    assert done.returncode != 0 and "no C compiler 'no-such-compiler'" in done.stdout, done.stdout
    assert "Traceback" not in done.stdout


need_pip()
main()
