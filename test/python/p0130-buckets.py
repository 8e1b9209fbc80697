"""The C half of the hooks, on objects that stand for torch's: the records it leaves, the references it takes and
gives back, exceptions, and what it leaves to the method in Python.
"""
import os

from ring import rings
from tap import equal, main, python, test

HEAD = """
import gc, os, sys, weakref
from lockstep import _abi
from lockstep._fast import Calls, fast, OPEN_ROOM
from lockstep._probe import probe
assert probe.open(0, 1)

class Work:
    over = False
    def is_completed(self):
        return self.over

class Tensor: pass
class Options: pass
class Group:
    fail, works = None, None
def original(group, tensors, options):
    if group.fail:
        raise group.fail
    work = Work()
    if group.works is not None:
        group.works.append(work)
    return work
class Owner:
    def method(self, tensors, options):
        self.asked = tensors, options
        return "by Python"

assert fast.ready(Work.is_completed)
fast.buckets.look_after_ns = 0
def comm():
    return probe.comm_add(7, 1, 0, _abi.COMM_KINDS["dp"], "replicas")
def make(sizes=(4096, 80, 16), place=True):
    owner, group = Owner(), Group()
    calls = Calls(owner, Owner.method, original, group)
    tensors = [Tensor() for _ in sizes]
    for number, (tensor, size) in enumerate(zip(tensors, sizes)):
        calls.learn(tensor, size, number + 1)
    if place:
        calls.place(probe.handle, comm(), 0xFF80)
    return owner, group, calls, tensors
options = Options()
"""


def run(place, script):
    directory = os.path.join(place, "rings")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    ended = python(HEAD + script, env={"LOCKSTEP_DIR": directory, "LOCKSTEP_DEBUG": "1"})
    equal((ended.returncode, ended.stderr), (0, ""))
    return ended.stdout, rings(directory)


def told(ring):
    return [(op.op, op.bytes, op.dtype, op.stream, op.key) for op in ring.ops()]


@test
def a_launch_is_recorded_before_the_call_and_its_end_when_it_is_over(place):
    out, (ring,) = run(place, """
owner, group, calls, tensors = make()
group.works = works = []
probe.step_begin(5)
for tensor in tensors:
    assert calls.call([tensor], options) is works[-1]
probe.phase_begin(11)              # a mark between: what ends after it was not over before
works[0].over = works[2].over = True
fast.look()
probe.phase_end(11)
print(fast.waiting(), fast.buckets.end - fast.buckets.first)
works[1].over = True
calls.call([tensors[0]], options)  # looks at all before it
print(fast.buckets.end - fast.buckets.first)
fast.over()
print(fast.waiting(), hasattr(owner, "asked"))
""")
    equal(out, "True 2\n1\nFalse False\n")
    equal(told(ring), [("all_reduce", 4096, "float32", 0xFF80, 0), ("all_reduce", 80, "bfloat16", 0xFF80, 1),
                       ("all_reduce", 16, "float16", 0xFF80, 2), ("all_reduce", 4096, "float32", 0xFF80, 3)])
    equal([(op.step, op.comm, op.enqueue == op.start) for op in ring.ops()], [(5, 0, True)] * 4)
    (begin,), (end,) = ([event.time for event in ring.of(kind)] for kind in ("phase_begin", "phase_end"))
    ends = [op.end for op in ring.ops()]
    assert begin <= ends[0] <= end < ends[1] <= ends[2] <= ends[3], (begin, end, ends)
    equal((ring.comms[0].enqueued, ring.comms[0].started, ring.comms[0].ended), (4, 4, 4))


@test
def launches_in_quick_succession_do_not_ask_each_time(place):
    out, _ = run(place, """
owner, group, calls, tensors = make()
Work.over = True
for after in 1 << 62, 0:
    fast.buckets.look_after_ns = after
    for number in range(3):
        calls.call([tensors[0]], options)
    print(fast.buckets.end - fast.buckets.first)
    fast.look()                          # who asks is told
    print(fast.waiting())
""")
    equal(out, "3\nFalse\n1\nFalse\n")


@test
def what_it_takes_it_gives_back(place):
    out, (ring,) = run(place, """
owner, group, calls, tensors = make()
seen = [owner, group, options, tensors, *tensors, original, Owner.method, Work.is_completed, True, False,
        calls, calls.call]
unknown, lists = Tensor(), [[tensor] for tensor in tensors]
seen += [unknown, *lists]
def counts():
    gc.collect()
    return [sys.getrefcount(one) for one in seen], [sum(isinstance(one, kind) for one in gc.get_objects())
                                                    for kind in (Work, tuple, list, dict)]
def turn():
    for one in lists:
        last = weakref.ref(calls.call(one, options))
        assert last() is not None       # held until it is over
    fast.look()                         # asks, and is told that it is not
    fast.over()
    assert last() is None
    assert calls.call([unknown], options) == "by Python"
    del owner.asked
    group.fail = KeyError("x")
    try:
        calls.call(lists[0], options)
    except KeyError:
        pass
    group.fail = None
for _ in range(3):
    turn()
before = counts()
for _ in range(50):
    turn()
after = counts()
# 50 turns would leave 50 or more; what the interpreter itself has of True and False varies.
print([(type(one).__name__, a, b) for one, a, b in zip(seen, before[0], after[0]) if b - a > 20])
print([b - a for a, b in zip(before[1], after[1]) if b - a > 20])
gone = [weakref.ref(one) for one in (owner, group, *tensors, calls.call)]
del owner, group, tensors, calls, seen, lists
gc.disable()
print([one() for one in gone])          # nothing of it is a cycle
""")
    equal(out, "[]\n[]\n[None, None, None, None, None, None]\n")
    equal((ring.comms[0].enqueued, ring.comms[0].ended), (212, 212))


@test
def an_exception_is_the_callers_and_ends_the_op(place):
    out, (ring,) = run(place, """
owner, group, calls, tensors = make()
for error in ValueError("v"), KeyboardInterrupt(), SystemExit(3):
    group.fail = error
    try:
        calls.call([tensors[1]], options)
    except BaseException as caught:
        print(caught is error, caught.__traceback__.tb_next.tb_frame.f_code.co_name, caught.__context__)
    print(fast.waiting())
group.fail = None
def odd(work):
    raise OSError("cannot say")
fast.buckets.is_completed = id(odd)
calls.call([tensors[0]], options)
calls.call([tensors[1]], options)
print(fast.buckets.end - fast.buckets.first)
fast.over()
""")
    equal(out, "True original None\nFalse\n" * 3 + "1\n")
    equal([(op.bytes, op.end is not None) for op in ring.ops()], [(80, True)] * 3 + [(4096, True), (80, True)])


@test
def what_it_does_not_know_is_left_to_python(place):
    out, (ring,) = run(place, """
owner, group, calls, tensors = make()
for odd in ([Tensor()], tensors[:2], [], (tensors[0],), None):
    print(calls.call(odd, options), owner.asked[0] is odd, owner.asked[1] is options)
for wrong in (), ([tensors[0]],):
    try:
        calls.call(*wrong)
    except TypeError as error:
        print(error)
calls.forget()
print(calls.call([tensors[0]], options))
owner, group, calls, tensors = make(place=False)
print(calls.call([tensors[0]], options))
calls.place(probe.handle, -1, 0)
print(calls.call([tensors[0]], options))
""")
    equal(out, "by Python True True\n" * 5 + "allreduce() takes tensors and options\n" * 2 + "by Python\n" * 3)
    equal(ring.ops(), [])


@test
def buckets_out_of_order_are_still_known(place):
    _, (ring,) = run(place, """
owner, group, calls, tensors = make()
for number in 2, 0, 0, 1, 2, 1:
    calls.call([tensors[number]], options)
fast.over()
""")
    equal([op.bytes for op in ring.ops()], [16, 4096, 4096, 80, 16, 80])


@test
def more_than_it_has_room_for_go_to_python(place):
    out, (ring,) = run(place, """
owner, group, calls, tensors = make()
said = [calls.call([tensors[0]], options) for _ in range(OPEN_ROOM + 3)]
print(said.count("by Python"), said[-3:])
fast.over()
print(calls.call([tensors[0]], options) == "by Python")
fast.over()
for number in range(2000):
    calls.learn(Tensor(), 1, 1)
print(calls.group.known_count)
""")
    equal(out, "3 ['by Python', 'by Python', 'by Python']\nFalse\n1024\n")
    equal((ring.comms[0].enqueued, ring.comms[0].ended), (257, 257))


@test
def another_ring_gets_nothing_before_it_is_told(place):
    out, found = run(place, """
owner, group, calls, tensors = make()
calls.call([tensors[0]], options)
turn = probe.turn
probe.close()
print(calls.call([tensors[0]], options), probe.turn != turn)
assert probe.open(0, 1)
comm()
print(calls.call([tensors[0]], options), fast.waiting())
fast.over()                              # launched in the ring before: no end here
calls.place(probe.handle, comm(), 0xFF80)
calls.call([tensors[1]], options)
fast.over()
""")
    equal(out, "by Python True\nby Python True\n")
    equal([(ring.comms[0].enqueued, ring.comms[0].ended) for ring in found], [(1, 0), (1, 1)])


@test
def a_forked_child_writes_nothing(place):
    out, (ring,) = run(place, """
owner, group, calls, tensors = make()
calls.call([tensors[0]], options)
child = os.fork()
if child == 0:
    good = calls.call([tensors[0]], options) == "by Python"
    fast.over()
    os._exit(0 if good else 1)
print(os.waitpid(child, 0)[1])
fast.over()
""")
    equal(out, "0\n")
    equal((ring.comms[0].enqueued, ring.comms[0].ended, ring.lanes_used), (1, 1, 1))


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
for odd in (1,), (1, "x"), (1, None), (0, 1.0), (6, 1.0), (-1, 1.0), (1 << 40, 1.0), ("x", 1.0), (1, 10 ** 400):
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
turned = _buckets.run_backward
said = []
def handle(number, frame):
    said.append("handled")
signal.signal(signal.SIGUSR1, handle)
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


@test
def backward_ends_all_unless_it_fails(place):
    out, (ring,) = run(place, BACKWARD + """
owner, group, calls, tensors = make()
def wake():
    said.append("wake")
    raise OSError("its own affair")
def end_others():
    said.append("others")
fast.buckets.wake, fast.buckets.end_others = id(wake), id(end_others)
def backward(tensors, error=None):
    for tensor in tensors:
        calls.call([tensor], options)
    if error:
        raise error
    return tensors
print(fast.backward(backward, (tensors,), {}) is tensors, fast.waiting(), fast.backwards(), said)
fast.awake(True), fast.has_others(), said.clear()
for error in KeyError("x"), KeyboardInterrupt():
    try:
        fast.backward(backward, (tensors,), {"error": error})
    except BaseException as caught:
        print(caught is error, fast.waiting(), fast.backwards(), said)
fast.backward(backward, ([],), {"error": None})
fast.backward(backward, ([],), {})
print(fast.waiting(), fast.backwards(), said)
for wrong in (), (backward,):
    try:
        fast.backward(*wrong)
    except TypeError as error:
        print(type(error).__name__)
signal.raise_signal(signal.SIGUSR1)
print(said)
counts = [sys.getrefcount(one) for one in (backward, tensors, None)]
for _ in range(500):
    fast.backward(backward, (tensors,), {})
print([after - before < 100 for before, after in zip(
    counts, [sys.getrefcount(one) for one in (backward, tensors, None)])])
""")
    equal(out.splitlines()[:5], ["True False 1 ['wake']", "True True 1 []", "True True 1 []",
                                 "False 3 ['others']", "TypeError"])
    equal(out.splitlines()[-2:], ["['others', 'handled']", "[True, True, True]"])
    equal((ring.comms[0].enqueued, ring.comms[0].ended), (1509, 1509))


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
    _fast._Group = type("_Group", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_uint64)]})
probe.open(0, 1)
print(bool(_fast.fast.ready(print)), _fast.fast.waiting(), _fast.fast.look(), _fast.fast.over())
probe.phase_begin(6)
probe.phase_end(6)
"""


@test
def without_a_c_half_there_is_python(place):
    for way in "known", "other", "free", "old", "differs":
        at = os.path.join(place, way)
        os.mkdir(at, 0o700)
        ended = python(WITHOUT, env={"LOCKSTEP_DIR": at, "LOCKSTEP_DEBUG": "1"}, argv=[way])
        equal(ended.stdout, "%s False None None\n" % (way == "known"), way + ended.stderr)
        equal(ended.stderr.startswith("lockstep: python: no C half"), way != "known", ended.stderr)
        ring, = rings(at)
        equal([event.detail for event in ring.events], ["backward", "backward"])


main()
