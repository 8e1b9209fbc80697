# SPDX-License-Identifier: Apache-2.0
"""The half of the Python package that pyproject.toml cannot say: the library, and the wheel's tag.

liblockstep.so needs libc only, so a C compiler is all it takes, and one wheel serves every Python of
an architecture.  $LOCKSTEP_LIB names one that is built already; $CC another compiler than cc.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        raise SystemExit("lockstep: this Python has neither setuptools 70 nor the package wheel: pip install wheel; or, "
                         "where there is no network, make a wheel with one that has (apt install python3-pip "
                         "python3-wheel; pip wheel --no-build-isolation .) and install that file: it serves every "
                         "Python of the architecture") from None

HERE = os.path.dirname(os.path.abspath(__file__))
SONAME = "liblockstep.so.0"
# libc only, all of them; the linker keeps what is used
SOURCES = ("probe/*.c", "wire/*.c", "core/*.c", "device/cuda/cuda.c", "device/cuda/symbols.c")
FLAGS = ("-std=gnu17 -O2 -g -fPIC -D_GNU_SOURCE -fvisibility=hidden -fasynchronous-unwind-tables -ffunction-sections "
         "-fdata-sections -shared -Wl,--gc-sections -Wl,-z,nodelete -Wl,-z,defs").split()


def embed_kernel(path):
    """The kernel that writes device stamps, as Meson embeds it."""
    ptx = os.path.join(HERE, "src", "device", "cuda", "stamp_kernel.ptx")
    with open(path, "w") as file:
        subprocess.run([sys.executable, os.path.join(HERE, "tools", "embed"), "--text", ptx, "device/cuda/stamp_kernel.h",
                        "stamp_kernel_ptx"], stdout=file, check=True)


def compile_library(out):
    with open(os.path.join(HERE, "meson.build")) as file:
        version = re.search(r"version: '([^']*)'", file.read()).group(1)
    names = os.path.join(HERE, "src", "probe", "liblockstep.map")
    sources = [path for pattern in SOURCES for path in sorted(glob.glob(os.path.join(HERE, "src", pattern)))]
    kernel = out + ".kernel.c"
    embed_kernel(kernel)
    command = shlex.split(os.environ.get("CC", "cc")) + FLAGS + [
        '-DLOCKSTEP_VERSION="%s"' % version, "-I" + os.path.join(HERE, "src"),
        "-I" + os.path.join(HERE, "include"), "-Wl,--version-script=" + names,
        "-Wl,-soname," + SONAME, "-o", out] + sources + [kernel]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        raise SystemExit("lockstep: no C compiler '%s': install one (apt install gcc libc6-dev), or "
                         "name a built library in LOCKSTEP_LIB" % command[0]) from None
    finally:
        os.unlink(kernel)


def tag_of(library):
    """The oldest libc that has all the library asks for, as wheels say it."""
    machine = sysconfig.get_platform().split("-", 1)[1].replace("-", "_").replace(".", "_")
    with open(library, "rb") as file:
        minors = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", file.read())]
    if not minors:
        return "linux_" + machine
    return "manylinux_2_%d_%s" % (max([17] + minors), machine)


class BuildWithLibrary(build_py):
    def run(self):
        shutil.rmtree(os.path.join(self.build_lib, "lockstep"), ignore_errors=True)  # of another day
        super().run()
        out = os.path.join(self.build_lib, "lockstep", SONAME)
        os.makedirs(os.path.dirname(out), exist_ok=True)
        given = os.environ.get("LOCKSTEP_LIB")
        if given:
            shutil.copyfile(given, out)
            os.chmod(out, 0o755)
        else:
            compile_library(out)


class AnyPythonWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        built = self.get_finalized_command("build_py").build_lib
        return "py3", "none", tag_of(os.path.join(built, "lockstep", SONAME))


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True  # into the architecture's directory


setup(distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPythonWheel},
      options={"build": {"build_base": "build-python"}})  # build/ is Meson's
