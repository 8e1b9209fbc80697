# SPDX-License-Identifier: Apache-2.0
"""What a program says by hand is in its ring, and where nobody listens nothing happens."""
import ast
import glob
import os
import re
import struct

from ring import rings
from tap import BUILD, PACKAGE, SOURCE, equal, main, python, test

TALK = """
import lockstep
lockstep.layout(tp=2, pp=1, cp=1)
with lockstep.phase("init"):
    pass
for i in range(3):
    with lockstep.step():
        with lockstep.phase("data"):
            pass
        lockstep.metric(loss=1.5 / (i + 1), tokens=100 + i)
with lockstep.step(40):
    lockstep.note("h\\u00e9llo " + "x" * 400)
with lockstep.step():
    pass
print(lockstep.recording())
"""


def heard(place, script=TALK, **env):
    done = python(script, dict({"LOCKSTEP_DIR": place, "RANK": "3", "WORLD_SIZE": "4"}, **env))
    equal((done.returncode, done.stderr), (0, ""))
    return done.stdout.strip(), rings(place)


@test
def what_is_said_by_hand_is_in_the_ring(place):
    said, found = heard(place)
    equal((said, len(found)), ("True", 1))
    ring = found[0]
    equal((ring.rank, ring.world, ring.dropped, ring.lost), (3, 4, 0, 0))
    equal(ring.layout, {"tp": (1, 2), "pp": (0, 1), "dp": (1, 2), "cp": (0, 1), "ep": (0, 1)})
    equal(ring.steps(), [0, 1, 2, 40, 41])
    equal([e.step for e in ring.of("step_end")], [0, 1, 2, 40, 41])
    equal(ring.phases(), ["init", "data", "data", "data"])
    equal(ring.check_nesting(), [])
    equal(ring.metrics("loss"), [(0, 1.5), (1, 0.75), (2, 0.5)])
    equal(ring.metrics("tokens"), [(0, 100), (1, 101), (2, 102)])
    equal(ring.notes()[0][:8], "h\u00e9llo xx")


@test
def without_a_launcher_it_does_nothing(place):
    done = python(TALK, cwd=place)
    equal((done.returncode, done.stdout.strip(), done.stderr), (0, "False", ""))
    equal(os.listdir(place), [])


@test
def without_the_library_it_does_nothing(place):
    said, found = heard(place, LOCKSTEP_LIB=os.path.join(place, "nowhere.so"))
    equal((said, found), ("False", []))


@test
def a_library_that_is_none_does_nothing(place):
    fake = os.path.join(place, "fake.so")
    with open(fake, "w") as file:
        file.write("not a library")
    said, found = heard(place, LOCKSTEP_LIB=fake)
    equal((said, found), ("False", []))
    done = python(TALK, {"LOCKSTEP_DIR": place, "LOCKSTEP_LIB": fake, "LOCKSTEP_DEBUG": "1"})
    assert fake in done.stderr, done.stderr


@test
def a_ring_that_cannot_be_made_says_one_line_and_goes_on(place):
    nowhere = os.path.join(place, "missing", "place")
    done = python(TALK, {"LOCKSTEP_DIR": nowhere})
    equal((done.returncode, done.stdout.strip()), (0, "False"))
    equal(len(done.stderr.splitlines()), 1)
    assert "training continues" in done.stderr
    done = python(TALK, {"LOCKSTEP_DIR": nowhere, "LOCKSTEP_QUIET": "1"})
    equal((done.returncode, done.stderr), (0, ""))


@test
def calls_that_can_never_be_right_are_refused(place):
    script = """
import lockstep
for call in (lambda: lockstep.phase("lunch"), lambda: lockstep.metric(speed=1), lambda: lockstep.step(-1),
             lambda: lockstep.layout(tp=(2, 2))):
    try:
        call()
        print("accepted")
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
lockstep.metric(loss="high", tokens=None)
"""
    said, _ = heard(place, script)
    equal(said.split(), ["ValueError", "TypeError", "ValueError", "ValueError"])


@test
def a_forked_child_writes_nothing(place):
    script = """
import os, lockstep
with lockstep.step():
    pid = os.fork()
    if pid == 0:
        with lockstep.step(7):
            lockstep.metric(loss=9)
        print(lockstep.recording(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""
    said, found = heard(place, script)
    equal((said, len(found)), ("False", 1))
    equal(found[0].steps(), [0])
    equal(found[0].metrics("loss"), [])


@test
def the_rank_is_what_the_launcher_says(place):
    for number, names in enumerate((("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
                                    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                                    ("PMI_RANK", "PMI_SIZE"))):
        directory = os.path.join(place, str(number))
        env = {"LOCKSTEP_DIR": directory, "RANK": None, "WORLD_SIZE": None}
        env.update({names[0]: "5", names[1]: "8"})
        equal(python(TALK, env).returncode, 0)
        equal([(ring.rank, ring.world) for ring in rings(directory)], [(5, 8)], names[0])


@test
def the_numbers_are_those_of_the_header(place):
    with open(os.path.join(SOURCE, "include", "lockstep", "probe.h")) as file:
        header = file.read()
    done = python("from lockstep import _abi; print(repr((_abi.PHASES, _abi.OPS, _abi.METRICS, "
                  "_abi.COMM_KINDS, _abi.DTYPES)))\n"
                  "import lockstep\n"
                  "assert {n: i + 1 for i, n in enumerate(lockstep._PHASES)} == _abi.PHASES\n"
                  "assert lockstep._METRICS | {'values_late': 6} == _abi.METRICS")
    equal((done.returncode, done.stderr), (0, ""))
    tables = ast.literal_eval(done.stdout)
    for table, prefix in zip(tables, ("PHASE", "OP", "METRIC", "COMM", "DTYPE")):
        said = dict(re.findall(r"LOCKSTEP_%s_(\w+) = (\d+)" % prefix, header))
        equal({n.upper().replace("-", "_"): str(v) for n, v in table.items()}, said, prefix)


@test
def every_exported_function_is_bound(place):
    with open(os.path.join(SOURCE, "include", "lockstep", "probe.h")) as file:
        names = set(re.findall(r"^LOCKSTEP_API .*?\blockstep_(\w+)\(", file.read(), re.M))
    done = python("from lockstep import _abi; print(*_abi._MARKS, *_abi._CALLS)")
    equal(set(done.stdout.split()), names)


@test
def the_private_table_is_that_of_the_header(place):
    with open(os.path.join(SOURCE, "src", "probe", "private_table.h")) as file:
        header = file.read()
    names = re.findall(r"\(\*(\w+)\)\(", re.search(r"struct private_table \{.*?\n\};", header, re.S).group())
    done = python("from lockstep import _abi; print(_abi._PRIVATE_VERSION, *_abi._PRIVATE)")
    version = re.search(r"#define PRIVATE_TABLE_VERSION (\d+)", header).group(1)
    equal(done.stdout.split(), [version] + names)
    done = python("from lockstep import _abi; _abi._PRIVATE_VERSION += 1; _abi.load()")
    equal((done.returncode, "of another version" in done.stderr), (1, True))


REQUEST = """
import ctypes, os, struct, sys
from lockstep import _abi
from lockstep._probe import probe
assert probe.request() is None and probe.open(0, 1) and probe.request() is None
desc = _abi.OpDesc(comm=probe.comm_add(7, 1, 0, 0, "dp"), op=1, bytes=64)
key = probe.library.coll_enqueue(probe.handle, ctypes.byref(desc))
name, = os.listdir(os.environ["LOCKSTEP_DIR"])
with open(os.path.join(os.environ["LOCKSTEP_DIR"], name), "r+b") as ring:
    ring.seek(320)
    ring.write(bytes.fromhex(sys.argv[1]))
request = probe.request()
print(key, request.kind, request.step, request.argument, request.id)
probe.answer(request, _abi.ANSWER_PAST)
print(probe.request())
"""


@test
def a_request_is_read_and_answered(place):
    with open(os.path.join(SOURCE, "test", "golden", "ring-v2.bin"), "rb") as file:
        request = file.read()[320:384]
    directory = os.path.join(place, "rings")
    os.mkdir(directory, 0o700)
    done = python(REQUEST, {"LOCKSTEP_DIR": directory}, argv=[request.hex()])
    equal((done.stderr, done.stdout.split("\n")), ("", ["0 1 50 0 7", "None", ""]))
    ring, = rings(directory)
    equal(struct.unpack_from("<QQQI", ring.data, 832), (2, 7, 2 ** 64 - 1, 2))
    equal([event.kind for event in ring.events], ["coll_enqueue"])


CHECKPOINTS = """
import os, struct, sys
import lockstep

def ask(number, step):
    lockstep.recording() or sys.exit("no ring")
    name, = os.listdir(os.environ["LOCKSTEP_DIR"])
    body = struct.pack("<QQQI", number, step, 0, 1)
    crc = checksum(body)
    with open(os.path.join(os.environ["LOCKSTEP_DIR"], name), "r+b") as ring:
        ring.seek(320)
        ring.write(struct.pack("<Q", 2 * number) + body + struct.pack("<I", crc))

def checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF

def answered():
    name, = os.listdir(os.environ["LOCKSTEP_DIR"])
    with open(os.path.join(os.environ["LOCKSTEP_DIR"], name), "rb") as ring:
        ring.seek(832)
        return struct.unpack("<QQQI", ring.read(28))[1:]

def train(first, last):
    for number in range(first, last):
        with lockstep.step(number):
            pass

saved = []
train(0, 2)
ask(1, 3)
train(2, 3)
print(*answered())  # no callback: refused at once
lockstep.on_checkpoint_request(saved.append)
ask(2, 5)
train(3, 8)
print(*answered(), saved)
ask(3, 6)
train(8, 9)
print(*answered(), saved)
def fails(step):
    raise OSError("disk full")
lockstep.on_checkpoint_request(fails)
ask(4, 9)
train(9, 10)
print(*answered(), saved)
lockstep.on_checkpoint_request(saved.append, agree=lambda due: True)  # another rank was asked
train(10, 11)
ask(5, 10)
train(11, 12)
print(*answered(), saved)
"""


@test
def a_program_saves_at_the_end_of_the_requested_step(place):
    directory = os.path.join(place, "rings")
    os.mkdir(directory, 0o700)
    done = python(CHECKPOINTS, {"LOCKSTEP_DIR": directory, "RANK": "0", "WORLD_SIZE": "1"})
    equal(done.stderr, "")
    equal(done.stdout.split("\n"), ["1 2 3", "2 5 1 [5]", "3 8 2 [5]", "4 9 3 [5]", "5 11 1 [5, 10, 11]", ""])


@test
def what_is_no_function_is_refused(place):
    done = python("import lockstep; lockstep.on_checkpoint_request(7)")
    equal((done.returncode, "takes functions" in done.stderr), (1, True))


@test
def it_is_python_3_9_everywhere(place):
    for path in glob.glob(os.path.join(PACKAGE, "lockstep", "**", "*.py"), recursive=True):
        with open(path) as file:
            ast.parse(file.read(), path, feature_version=(3, 9))


@test
def the_library_is_found_beside_the_build(place):
    done = python("from lockstep import _abi; print(_abi.load().path)", {
        "LOCKSTEP_LIB": None, "PYTHONPATH": os.path.join(BUILD, "bindings", "python")})
    equal(done.stdout.strip(), os.path.join(os.path.abspath(BUILD), "liblockstep.so.0"), done.stderr)


main()
