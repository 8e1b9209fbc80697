# SPDX-License-Identifier: Apache-2.0
"""When a training saves: intervals, requests by step number, and notices that its end is near."""
import os
import re
import signal
import socket
import subprocess
import time

from tap import BUILD, LOCKSTEP, PACKAGE, PYTHON, equal, main, need_torch, python, test

ENV = {"LOCKSTEP_CKPT_LIBRARY": os.path.join(BUILD, "liblockstep-ckpt.so.0"), "OMP_NUM_THREADS": "1", "USE_LIBUV": "0"}
BEGIN = """
import os, signal, sys, time
import torch
import lockstep
directory = sys.argv[1]
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TRAIN = BEGIN + """
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
checkpoints = lockstep.Checkpointer(directory, **eval(sys.argv[2]))
found = checkpoints.load_latest(model=model, optimizer=optimizer)
print("from", found and found.step, found and found.extra, flush=True)
for step in range(found.step + 1 if found else 0, int(sys.argv[3])):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    checkpoints.step(step, model=model, optimizer=optimizer, extra=lambda: {"seen": step})
    print("step", step, flush=True)
    time.sleep(0.02)  # the work of a step
assert checkpoints.wait(timeout=60), checkpoints.last_error
print("saved", checkpoints.steps())
checkpoints.close()
"""


def port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(place, settings, steps=100000, rank=0, world=1, number=0, **env):
    whole = dict(os.environ, PYTHONPATH=PACKAGE, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                 MASTER_PORT=str(number), **ENV, **env)
    for name in "LOCKSTEP_DIR", "LOCKSTEP_RUN":
        whole.pop(name, None)
    return subprocess.Popen([PYTHON, "-c", TRAIN, place + "/ckpt", settings, str(steps)], env=whole, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until_step(process, least):
    for line in process.stdout:
        if line.startswith("step") and int(line.split()[1]) >= least:
            return
    raise AssertionError("ended before step %d: %s" % (least, process.stderr.read()[-2000:]))


def train(place, settings, steps, **env):
    process = start(place, settings, steps, **env)
    out, errors = process.communicate(timeout=150)
    return process.returncode, out, errors


@test
def every_so_many_steps(place):
    status, out, errors = train(place, "{'interval': 4}", 11)
    equal(status, 0, errors[-2000:])
    assert out.endswith("saved [7, 3]\n"), out
    status, out, errors = train(place, "{'interval': 4}", 12)
    assert out.startswith("from 7 {'seen': 7}\n"), out


@test
def as_often_as_it_pays(place):
    status, out, errors = train(place, "{'interval': 'auto', 'mtbf': 0.5}", 40)
    equal(status, 0, errors[-2000:])
    saved = re.search(r"saved \[(.*)\]", out).group(1).split(", ")
    equal(saved[-1], "10", "the first save")
    assert len(saved) >= 2, saved
    assert re.search(r"lockstep: a checkpoint every \d+ steps: a save every .*failure.*\(no failure yet\)", errors), errors
    status, out, errors = train(place, "{'interval': 'auto', 'mtbf': 0.5}", 80)  # the first was not ended on purpose
    assert "1 failures in" in errors, errors


@test
def the_interval_is_dalys(place):
    done = python("""
import math, sys
from lockstep.checkpoint import engine, schedule
made = engine.Engine(sys.argv[1])
for save_s, write_s, failure_s, step_s in ((1.0, 0.0, 5000.0, 2.0), (0.01, 0.2, 1e6, 0.1), (30.0, 0.0, 10.0, 1.0), (1.0, 300.0, 5000.0, 2.0)):
    ratio = save_s / 2 / failure_s
    best = failure_s + save_s if ratio >= 1 else math.sqrt(2 * save_s * failure_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9)
    number, why = made.interval(save_s, write_s, failure_s, step_s)
    assert abs(number - max(best, write_s) / step_s) <= 1 and "a failure every" in why, (number, best, why)
assert "the disk needs 300 s" in why, why
history = schedule.History({"seconds": 7200.0, "failures": 2, "orderly": False})
assert history.failures == 3 and 2700 < history.failure_s(3600.0) < 2701, history.failure_s(3600.0)
""", ENV, [place + "/ckpt"])
    equal(done.returncode, 0, done.stderr[-2000:])


@test
def a_notice_saves_and_exits_for_a_requeue(place):
    process = start(place, "{}")
    until_step(process, 5)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=100)
    equal(process.returncode, 75, errors[-2000:])
    last = int(re.search(r"SIGTERM: step (\d+) is saved; exiting with status 75", errors).group(1))
    status, out, errors = train(place, "{}", last + 3)
    assert out.startswith("from %d {'seen': %d}\n" % (last, last)), out
    process = start(place, "{'notices': ['SIGUSR1'], 'requeue_status': 99}")
    until_step(process, last + 1)
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=100)
    equal(process.returncode, 99)


@test
def a_notice_to_one_rank_ends_all_at_one_step(place):
    number = port()
    ranks = [start(place, "{'replicated': True}", rank=rank, world=2, number=number) for rank in range(2)]
    for process in ranks:
        until_step(process, 5)
    ranks[1].send_signal(signal.SIGTERM)
    ended = [process.communicate(timeout=150) for process in ranks]
    equal([process.returncode for process in ranks], [75, 75], ended[0][1][-1500:] + ended[1][1][-1500:])
    steps = {re.findall(r"step (\d+)", out)[-1] for out, _ in ended}
    equal(len(steps), 1, "the last step of each rank")
    assert "a notice of another rank: step" in ended[0][1] and "is saved" in ended[0][1], ended[0][1]
    done = subprocess.run([LOCKSTEP, "ckpt", "verify", place + "/ckpt"], capture_output=True, text=True)
    equal(done.returncode, 0, done.stdout + done.stderr)


@test
def slurms_time_limit_is_a_notice(place):
    status, out, errors = train(place, "{'margin': 60}", 100000, SLURM_JOB_ID="1", SLURM_JOB_END_TIME=str(int(time.time()) + 61))
    equal(status, 75, errors[-2000:])
    assert "the time limit of the job: step" in errors, errors


@test
def a_handler_of_the_program_stays(place):
    done = python(BEGIN + """
came = []
signal.signal(signal.SIGTERM, lambda *_: came.append("own"))
checkpoints = lockstep.Checkpointer(directory)
for step in range(3):
    checkpoints.step(step, model=model)
    os.kill(os.getpid(), signal.SIGTERM)
checkpoints.close()
print(came)
chained = lockstep.Checkpointer(directory, notices=["SIGTERM"])
chained.step(3, model=model)
os.kill(os.getpid(), signal.SIGTERM)
print(came)
try:
    chained.step(4, model=model)
except lockstep.Preempted as end:
    print(end.code)
print(signal.getsignal(signal.SIGTERM).__name__)
""", ENV, [place + "/ckpt"])
    equal(done.stdout.splitlines(), ["['own', 'own', 'own']", "['own', 'own', 'own', 'own']", "75", "<lambda>"], done.stderr[-1500:])


@test
def a_request_is_served_at_its_step_and_answered(place):
    from importlib import util
    spec = util.spec_from_file_location("by_hand", os.path.join(os.path.dirname(os.path.abspath(__file__)), "p0001-by-hand.py"))
    with open(spec.origin) as file:
        helpers = re.search(r"def ask\(.*?(?=def train\()", file.read(), re.S).group()
    directory = os.path.join(place, "rings")
    os.mkdir(directory, 0o700)
    done = python(BEGIN + "import struct\n" + helpers + """
checkpoints = lockstep.Checkpointer(directory)
def train(first, last, inside):
    for number in range(first, last):
        with torch.no_grad():
            model.weight += 1
        with lockstep.step(number):
            if inside:
                checkpoints.step(number, model=model)
        if not inside:
            checkpoints.step(number, model=model)
train(0, 2, True)
ask(1, 3)
train(2, 4, True)
checkpoints.wait(timeout=60)
train(4, 5, True)
print(*answered(), checkpoints.steps())
ask(2, 6)
train(5, 7, False)
checkpoints.wait(timeout=60)
train(7, 8, False)
print(*answered(), checkpoints.steps())
ask(3, 6)
train(8, 9, False)
print(*answered())
ask(4, 7)
train(9, 10, False)
print(*answered())
ask(5, 10)
train(10, 11, False)
checkpoints.close()
print(*answered())
ask(6, 12)
train_only = lockstep.step(11)
with train_only:
    pass
print(*answered())
""", {"LOCKSTEP_DIR": directory, "RANK": "0", "WORLD_SIZE": "1", **ENV}, [place + "/ckpt"])
    equal(done.stderr, "")
    lines = done.stdout.splitlines()
    equal(lines, ["1 3 1 [3]", "2 6 1 [6, 3]", "3 8 1", "4 9 2", "5 10 1", "6 11 3"])


need_torch()
main()
