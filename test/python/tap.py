# SPDX-License-Identifier: Apache-2.0
"""A few words for tests in Python: functions decorated with @test run in order and print TAP."""
import functools
import os
import subprocess
import sys
import tempfile
import threading
import traceback

SOURCE = os.environ.get("SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD") or os.path.join(SOURCE, "build")
LOCKSTEP = os.environ.get("LOCKSTEP") or os.path.join(BUILD, "lockstep")
PACKAGE = os.path.join(SOURCE, "bindings", "python")
PYTHON = sys.executable

sys.path.append(os.path.join(SOURCE, "test", "t"))
import load  # noqa: E402

_tests = []


class Skip(Exception):
    """What a test raises that cannot tell here, with the reason."""


class Timing(AssertionError):
    """What timed() raises."""


class Watch(threading.Thread):
    """Looks once a second, while it is entered, at what others take of this machine."""

    def __init__(self, place):
        super().__init__(daemon=True)
        self.load, self.over = load.Load(os.getpid(), place), threading.Event()

    def run(self):
        while not self.over.wait(1):
            self.load.look()

    def __enter__(self):
        self.start()
        return self.load

    def __exit__(self, *_):
        self.over.set()
        self.join()


def timed(condition, what):
    """An assertion that depends on how real time went; for tests that are @on_real_time."""
    if not condition:
        raise Timing(what)


def on_real_time(function):
    """Below @test.  Where timed() fails while others take too much of the machine, the test is repeated, and
    skipped with that reason when it fails each time; see test/t/load.sh."""
    @functools.wraps(function)
    def trials(place):
        for trial in range(1, load.TRIALS + 1):
            with Watch(place) as watched, tempfile.TemporaryDirectory(dir=place) as inner:
                try:
                    return function(inner)
                except Timing as error:
                    failure = error
            if watched.most_percent <= load.LIMIT_PERCENT:
                raise failure
            print("# trial %d failed while others took %d %% of the processors: %s" %
                  (trial, watched.most_percent, failure), flush=True)
        raise Skip("others took %d %% of this machine's processors, limit %d %%; trial %d" %
                   (watched.most_percent, load.LIMIT_PERCENT, trial))
    return trials


def test(function):
    _tests.append(function)
    return function


def equal(got, expected, what=""):
    assert got == expected, "%sgot %r, expected %r" % ("%s: " % (what,) if what else "", got, expected)


def need_torch():
    """Where torch is missing: an error on the machine that must have it, else a skip."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        if os.environ.get("CI") == "true":
            print("Bail out! CI has no torch for %s: %s" % (PYTHON, error))
            sys.exit(1)
        print("1..0 # SKIP no torch for %s (%s); tools/deps torch installs it" % (PYTHON, error))
        sys.exit(0)


def main():
    """With arguments, only the tests of those names."""
    chosen = [t for t in _tests if len(sys.argv) < 2 or t.__name__ in sys.argv[1:]]
    failed = 0
    print("1..%d" % len(chosen))
    for number, function in enumerate(chosen, 1):
        name = function.__name__.replace("_", " ")
        try:
            with tempfile.TemporaryDirectory(prefix="lockstep-p.") as place:
                function(place)
            print("ok %d - %s" % (number, name), flush=True)
        except Skip as reason:
            print("ok %d - %s # SKIP %s" % (number, name, reason), flush=True)
        except Exception:
            failed += 1
            print("not ok %d - %s" % (number, name), flush=True)
            for line in traceback.format_exc().splitlines():
                print("# " + line, file=sys.stderr, flush=True)
    sys.exit(failed > 0)


def python(script, env=None, argv=(), **options):
    """Runs a script's text with the package on its path; returns the ended process."""
    whole = dict(os.environ, PYTHONPATH=PACKAGE)
    whole.pop("LOCKSTEP_DIR", None)
    whole.pop("LOCKSTEP_RUN", None)
    whole["LOCKSTEP_LIB"] = os.path.join(BUILD, "liblockstep.so.0")
    whole.update(env or {})
    whole = {name: value for name, value in whole.items() if value is not None}
    return subprocess.run([PYTHON, "-c", script, *argv], env=whole, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=100, **options)
