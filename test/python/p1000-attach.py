# SPDX-License-Identifier: Apache-2.0
"""Attaching changes nothing that a program sees, and whatever goes wrong in it is not its problem.

Without torch: a module of that name, made here, stands for it.
"""
import os
import shutil
import subprocess

from ring import rings
from tap import BUILD, LOCKSTEP, PYTHON, equal, main, test
from twice import SITE, Job, base_env, twice

FINDERS = int(subprocess.run([PYTHON, "-c", "import sys; print(len(sys.meta_path))"], capture_output=True,
                             env=dict(os.environ, PYTHONPATH="")).stdout)
LOOK = """
import sys, os
print(sys.path)
print(sorted(name for name in sys.modules if name in ("torch", "ctypes", "numpy", "multiprocessing")))
print(sys.argv, __name__)
print(sys.excepthook is sys.__excepthook__)
import site
print(getattr(sys.modules.get("sitecustomize"), "__file__", None))
"""


def write(directory, name, text):
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    return path


@test
def a_program_sees_no_difference(place):
    seen, found = twice(place, LOOK)
    equal((seen.status, seen.err, found), ([0], [""], []))


@test
def another_sitecustomize_still_runs(place):
    other = os.path.join(place, "other")
    write(other, "sitecustomize.py", "import builtins; builtins.HELLO = __file__; print('other', __name__)")
    script = "import sitecustomize; print(HELLO == sitecustomize.__file__)"
    jobs = [Job(place, script, attached, env={"PYTHONPATH": path})
            for attached, path in ((False, other), (True, SITE + ":" + other))]
    plain, attached = (job.end() for job in jobs)
    equal(attached, plain)
    equal(plain.out[0].split(), ["other", "sitecustomize", "True"])


@test
def where_there_is_no_other_nothing_is_said(place):
    # Debian's Python has one of its own; others have none.  Here only ours is found, and only while it is on the path.
    done = subprocess.run([PYTHON, "-S", "-c", """
import site, sys
from importlib.machinery import PathFinder
class Only:
    def find_spec(self, name, path=None, target=None):
        if name == "sitecustomize":
            found = PathFinder.find_spec(name, [one for one in sys.path if one == sys.argv[1]])
            if found is None:
                raise ModuleNotFoundError("No module named 'sitecustomize'", name=name)
            return found
sys.meta_path.insert(0, Only())
sys.path.insert(0, sys.argv[1])
site.execsitecustomize()
print("_lockstep_attached" in sys.modules, "sitecustomize" in sys.modules, sys.argv[1] in sys.path)
""", SITE], env=base_env(place, True), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    equal(done.stdout, "True False False\n")
    for name in sorted({shutil.which("python3"), PYTHON} - {None}):
        done = subprocess.run([name, "-c", "import sys; print('_lockstep_attached' in sys.modules)"],
                              env=base_env(place, True), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True)
        equal(done.stdout, "True\n", name)


@test
def an_error_in_another_sitecustomize_is_its_own(place):
    other = os.path.join(place, "other")
    write(other, "sitecustomize.py", "import nothing_of_that_name")
    jobs = [Job(place, "print('goes on')", attached, env={"PYTHONPATH": path})
            for attached, path in ((False, other), (True, SITE + ":" + other))]
    plain, attached = (job.end() for job in jobs)
    equal(attached, plain)
    assert "nothing_of_that_name" in plain.err[0]


@test
def an_error_of_ours_breaks_nothing(place):
    for broken in ("_attach.py", "_probe.py", "__init__.py"):
        copy = os.path.join(place, broken, "lockstep")
        shutil.copytree(os.path.join(BUILD, "bindings", "python", "lockstep"), copy)
        write(copy, broken, "raise RuntimeError('ours')" if broken != "_probe.py" else "syntax error")
        env = base_env(place, True, {"PYTHONPATH": os.path.join(copy, "site")})
        script = "import sys; print('_lockstep_attached' in sys.modules, len(sys.meta_path), sys.path[1:2])"
        done = subprocess.run([PYTHON, "-c", script], env=env, capture_output=True, text=True)
        equal((done.returncode, done.stderr), (0, ""), broken)
        assert done.stdout.startswith("False %d " % FINDERS), done.stdout
        done = subprocess.run([PYTHON, "-c", script], env=dict(env, LOCKSTEP_DEBUG="1"),
                              capture_output=True, text=True)
        equal(done.returncode, 0)
        assert "not attached" in done.stderr, done.stderr


@test
def switched_off_it_only_serves_what_is_said_by_hand(place):
    script = """
import sys
print(any(name.endswith("._attach") for name in sys.modules), len(sys.meta_path))
import lockstep
with lockstep.step():
    pass
"""
    env = base_env(place, True, {"LOCKSTEP_ATTACH": "0"})
    done = subprocess.run([PYTHON, "-c", script], env=env, capture_output=True, text=True)
    equal((done.returncode, done.stderr), (0, ""))
    equal(done.stdout, "False %d\n" % (FINDERS + 1))  # what finds `lockstep` for it
    equal([ring.steps() for ring in rings(os.path.join(place, "rings"))], [[0]])


FAKE = """
class Tensor: pass
def is_grad_enabled(): return True
import sys
loaded = __spec__.loader.__class__.__name__, __loader__ is __spec__.loader
"""


@test
def torch_is_hooked_when_the_program_imports_it_and_looks_as_ever(place):
    fake = os.path.join(place, "fake", "torch")
    write(fake, "__init__.py", FAKE)
    write(fake, "serialization.py", "def save(what, where): open(where, 'w').write(what)\n")
    script = """
import sys
sys.path.insert(0, %r)
print("torch" in sys.modules)
import importlib.util
print(importlib.util.find_spec("torch").origin == %r)
import torch, torch.serialization
print(torch.loaded, torch.__loader__.__class__.__name__, torch.__spec__.loader is torch.__loader__)
torch.serialization.save("text", "file")
print(torch.serialization.save.__name__)
import importlib
importlib.reload(torch.serialization)
""" % (os.path.dirname(fake), os.path.join(fake, "__init__.py"))
    seen, found = twice(place, script)
    equal((seen.status, seen.err, found), ([0], [""], []))
    equal(seen.files, {"file": b"text"})


@test
def a_torch_that_fails_to_import_fails_as_ever(place):
    fake = os.path.join(place, "fake", "torch")
    write(fake, "__init__.py", "raise ImportError('no such device')")
    script = """
import sys
sys.path.insert(0, %r)
for i in range(2):
    try:
        import torch
    except ImportError as error:
        print(error, "torch" in sys.modules)
import torch
""" % os.path.dirname(fake)
    seen, found = twice(place, script)
    equal((seen.status, found), ([1], []))


@test
def a_rank_that_fails_before_it_trains_leaves_its_last_words(place):
    fake = os.path.join(place, "fake", "torch")
    write(fake, "__init__.py", FAKE)
    script = """
import sys
sys.path.insert(0, %r)
import torch
raise FileNotFoundError("no data set at /data/" + "x" * 500)
""" % os.path.dirname(fake)
    seen, found = twice(os.path.join(place, "rank"), script, env={"RANK": "2", "WORLD_SIZE": "3"})
    equal((seen.status, len(found), found[0].rank), ([1], 1, 2))
    said = found[0].notes()[0]
    assert said.startswith("uncaught FileNotFoundError: no data set at /data/xxx"), said
    assert said.endswith(" at script.py:5") and len(said) <= 320, said
    # A launcher that reports the failure of a rank is none.
    equal(twice(os.path.join(place, "launcher"), script)[1], [])


@test
def a_ring_is_closed_by_an_end_that_python_sees(place):
    fake = os.path.join(place, "fake", "torch")
    write(fake, "__init__.py", FAKE)
    for number, (end, status, closed) in enumerate((
            ("sys.exit('enough')", 1, 1), ("os._exit(4)", 4, 0))):
        seen, found = twice(os.path.join(place, str(number)), """
import os, sys
sys.path.insert(0, %r)
import torch
try:
    from lockstep import step
except ImportError:
    from contextlib import nullcontext as step
for i in range(2):
    with step(): print(i, flush=True)
%s
""" % (os.path.dirname(fake), end))
        equal(seen.status, [status], end)
        equal([(ring.closed, ring.steps(), ring.notes()) for ring in found], [(closed, [0, 1], [])], end)


@test
def helpers_that_are_no_ranks_open_no_ring(place):
    script = """
import subprocess, sys, multiprocessing
def f(x): return x * 2
if __name__ == "__main__":
    print(subprocess.run([sys.executable, "-c", "print(1); raise SystemExit(3)"]).returncode)
    for how in ("fork", "spawn"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            print(pool.map(f, range(4)))
    raise ValueError("at the end")
"""
    seen, found = twice(place, script, env={"RANK": "0", "WORLD_SIZE": "1"})
    equal((seen.status, found), ([1], []))


@test
def lockstep_run_attaches_its_ranks(place):
    fake = os.path.join(place, "fake", "torch")
    write(fake, "__init__.py", FAKE)
    script = write(place, "script.py", """
import os, shutil, sys, time
sys.path.insert(0, %r)
import torch, lockstep
with lockstep.step():
    pass
print("path", os.environ["PYTHONPATH"].split(":")[-1])
open("done-" + os.environ["RANK"], "w").close()
if os.environ["RANK"] == "1":
    while not os.path.exists("done-0"):
        time.sleep(0.01)
    shutil.copytree(os.environ["LOCKSTEP_DIR"], "copy")
""" % os.path.dirname(fake))
    env = dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state"), PYTHONPATH="/nowhere",
               HOME=place)
    done = subprocess.run([LOCKSTEP, "run", "-n", "2", "--no-watch", "--", PYTHON, script], env=env,
                          cwd=place, capture_output=True, text=True, timeout=60)
    equal(done.returncode, 0, done.stderr)
    assert "path /nowhere" in done.stdout, done.stdout
    equal([(ring.rank, ring.world, ring.steps()) for ring in rings(os.path.join(place, "copy"))],
          [(0, 2, [0]), (1, 2, [0])])
    shown = subprocess.run([LOCKSTEP, "run", "--dry-run", "--", "true"], env=env, cwd=place,
                           capture_output=True, text=True)
    assert "PYTHONPATH=%s:/nowhere " % SITE in shown.stdout, shown.stdout
    shown = subprocess.run([LOCKSTEP, "run", "--dry-run", "--", "true"],
                           env=dict(env, LOCKSTEP_ATTACH="0"), cwd=place, capture_output=True, text=True)
    assert "PYTHONPATH" not in shown.stdout, shown.stdout


main()
