# SPDX-License-Identifier: Apache-2.0
"""The C half of the hooks without torch: the records it leaves, references, exceptions, and what there is without it.

What it sees of gloo is in src/probe/test/test-gloo.c, where torch is played, and in p2100-torch-ddp.py, where it is not.
"""
import os

from ring import rings
from tap import equal, main, python, test

HEAD = """
import os, sys
from lockstep._fast import fast
from lockstep._probe import probe
assert probe.open(0, 1) and fast.use()
"""


def run(place, script):
    directory = os.path.join(place, "rings")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    ended = python(HEAD + script, env={"LOCKSTEP_DIR": directory, "LOCKSTEP_DEBUG": "1"})
    equal((ended.returncode, ended.stderr), (0, ""))
    return ended.stdout, rings(directory)


@test
def what_is_called_aside_is_called_as_ever(place):
    out, _ = run(place, """
over, aside = fast.builtin("over"), fast.builtin("aside")
def call(*args, **kwargs):
    if "error" in kwargs:
        raise kwargs["error"]
    return args, kwargs
args, kwargs = (1, "two"), {"three": 3}
result = aside(call, args, kwargs)
print(result == (args, kwargs), over())
for error in KeyError("x"), KeyboardInterrupt():
    try:
        aside(call, (), {"error": error})
    except BaseException as caught:
        print(caught is error, caught.__context__)
for wrong in (), (call,), (call, (), {}, 1):
    try:
        aside(*wrong)
    except TypeError as error:
        print(type(error).__name__)
seen = [call, args, kwargs, None, aside, over]
def turns(count):
    for _ in range(count):
        aside(call, args, kwargs), over()
        try:
            aside(call)
        except TypeError:
            pass
    return [sys.getrefcount(one) for one in seen]
before = turns(3)
print([b - a > 100 for a, b in zip(before, turns(500))])
""")
    lines = out.splitlines()
    equal(lines[:6], ["True None", "True None", "True None", "TypeError", "TypeError", "TypeError"])
    equal(lines[6], str([False] * 6))


@test
def phases_are_marked_past_ctypes_and_raise_nothing(place):
    out, (ring,) = run(place, """
print(type(probe.phase_begin).__name__)
probe.phase_begin(6)
for odd in -1, 0, 12, 1 << 40, 1 << 80, None, "x", 2.5:
    probe.phase_begin(odd), probe.phase_end(odd)
probe.phase_end(6)
probe.close()
probe.phase_begin(7)
""")
    equal(out, "builtin_function_or_method\n")
    equal([(event.kind, event.detail) for event in ring.events], [("phase_begin", "backward"), ("phase_end", "backward")])


@test
def steps_and_metrics_are_marked_past_ctypes_and_raise_nothing(place):
    out, (ring,) = run(place, """
print({type(getattr(probe, name)).__name__ for name in ("step_begin", "step_end", "metric")})
probe.step_begin(1 << 40)
probe.metric(1, -1.0), probe.metric(5, 3), probe.metric(2, float("nan")), probe.metric(3, True)
for odd in -1, 1 << 80, None, "x", 2.5:
    probe.step_begin(odd), probe.step_end(odd)
for odd in (1,), (1, "x"), (1, None), (0, 1.0), (8, 1.0), (-1, 1.0), (1 << 40, 1.0), ("x", 1.0), (1, 10 ** 400):
    probe.metric(*odd)
probe.step_end(1 << 40)
probe.close()
probe.step_begin(7), probe.metric(1, 1.0)
""")
    equal(out, "{'builtin_function_or_method'}\n")
    equal([event.kind for event in ring.events], ["step_begin"] + ["metric"] * 4 + ["step_end"])
    equal({event.step for event in ring.events}, {1 << 40})
    metrics = [(event.detail, event.a) for event in ring.of("metric")]
    equal(metrics[:2] + metrics[3:], [("loss", -1.0), ("micro_batches", 3.0), ("tokens", 1.0)])
    assert metrics[2][1] != metrics[2][1], metrics


BACKWARD = """
import signal
from lockstep import _buckets
turned = _buckets.run_backward_aloud
said = []
def handle(number, frame):
    said.append("handled")
signal.signal(signal.SIGUSR1, handle)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without jobs starts those in the background without it
signal.siginterrupt(signal.SIGUSR1, False)
def backward(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)
        for _ in range(1000):            # where it would be handled
            said.append(len(said))
            said.pop()
    said.append("over")
    return "result"
"""


@test
def signals_are_handled_after_backward(place):
    out, _ = run(place, BACKWARD + """
import threading
def turn(call, *args):
    said.clear()
    try:
        said.append(call(*args))
    except KeyboardInterrupt as error:
        said.append(type(error).__name__)
    print(*said)
turn(turned, backward, (signal.SIGUSR1,), {})
turn(turned, backward, (signal.SIGINT,), {})
turn(backward, signal.SIGUSR1)           # afterwards all is as it was
turn(turned, turned, (backward, (signal.SIGUSR1, signal.SIGUSR1), {}), {})
thread = threading.Thread(target=turn, args=(turned, backward, (), {}))
thread.start(), thread.join()
def change():
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGUSR1)
turn(turned, change, (), {})
print(signal.getsignal(signal.SIGUSR1).name)
os.kill(os.getpid(), signal.SIGUSR1)     # ignored, or we end here
""")
    equal(out, "over handled result\nover KeyboardInterrupt\nhandled over result\nover handled result\n"
          "over result\nNone\nSIG_IGN\n")


WITHOUT = """
import ctypes, sys
from lockstep import _abi, _fast
from lockstep._probe import probe
probe.library = _abi.load()
way = sys.argv[1]
if way == "other":
    _fast.sys = type("sys", (), {"implementation": type("pypy", (), {"name": "pypy"})})
elif way == "free":
    _fast.sysconfig = type("sysconfig", (), {"get_config_var": staticmethod(lambda name: 1)})
elif way == "old":
    del probe.library.python_use
elif way == "differs":
    _fast.ctypes = type("ctypes", (), dict(vars(ctypes), sizeof=staticmethod(lambda of: 8)))
probe.open(0, 1)
print(bool(_fast.fast.use()))
probe.phase_begin(6)
probe.phase_end(6)
"""


@test
def without_a_c_half_there_is_python(place):
    for way in "known", "other", "free", "old", "differs":
        at = os.path.join(place, way)
        os.mkdir(at, 0o700)
        ended = python(WITHOUT, env={"LOCKSTEP_DIR": at, "LOCKSTEP_DEBUG": "1"}, argv=[way])
        equal(ended.stdout, "%s\n" % (way == "known"), way + ended.stderr)
        equal(ended.stderr.startswith("lockstep: python: no C half"), way != "known", ended.stderr)
        ring, = rings(at)
        equal([event.detail for event in ring.events], ["backward", "backward"])


main()
