# SPDX-License-Identifier: Apache-2.0
"""`lockstep request checkpoint` on a training that calls Checkpointer.step(): all ranks save one step, and it is committed."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

from tap import BUILD, LOCKSTEP, equal, main, need_torch, test

TRAIN = """
import os, signal, sys, time
import torch
import lockstep
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader([torch.ones(8) for _ in range(64)], batch_size=8)
dies = int(sys.argv[2]) if len(sys.argv) > 2 else None
checkpoints = lockstep.Checkpointer(sys.argv[1], replicated=True, interval=8 if dies else None)
step = 0
while True:
    for batch in data:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if checkpoints.step(step, model=model, optimizer=optimizer, extra={"step": step}) and dies:
            assert checkpoints.wait("verified", 90), checkpoints.last_error
        if step == dies and torch.distributed.get_rank() == 1:
            time.sleep(2)  # the agent reads rings on a tick
            os.kill(os.getpid(), signal.SIGKILL)
        step += 1
        time.sleep(0.03)  # the rest of the step
"""


def until(condition, what, seconds=100):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)  # looks again


def committed(directory):
    done = subprocess.run([LOCKSTEP, "ckpt", "ls", "--json", directory], capture_output=True, text=True)
    return any(point["ranks"] == 2 and point["state"] in ("committed", "verified") for point in json.loads(done.stdout)["points"])


def metrics(place):
    """Of the run's checkpoints, by name."""
    with open(place + "/state/runs/r/control.url") as file:
        url, token = file.read().split()
    request = urllib.request.Request(url + "/metrics", headers={"Authorization": "Bearer " + token})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(re.findall(r'^lockstep_run_checkpoint_(\w+)\{run="r"\} (\S+)$', answer.read().decode(), re.M))


@test
def a_request_is_served_by_all_ranks_at_one_step(place):
    env = dict(os.environ, LOCKSTEP_STATE=place + "/state", OMP_NUM_THREADS="1", USE_LIBUV="0",
               LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
    with open(place + "/train.py", "w") as file:
        file.write(TRAIN)
    run = subprocess.Popen([LOCKSTEP, "run", "-q", "--name", "r", "-n", "2", "--grace", "60s", "--", sys.executable, place + "/train.py",
                            place + "/ckpt"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: run.poll() is not None or os.path.exists(place + "/state/runs/r/control.url") and
              os.path.exists(place + "/ckpt"), "the run does not start")
        done = None
        for _ in range(20):  # no step is known yet
            done = subprocess.run([LOCKSTEP, "request", "checkpoint", "r"], env=env, capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                break
            time.sleep(0.5)  # asks again
        equal(done.returncode, 0, done.stdout + done.stderr)
        steps = re.findall(r"rank \d+: saved at step (\d+)", done.stdout)
        equal((len(steps), len(set(steps))), (2, 1), done.stdout)
        until(lambda: committed(place + "/ckpt"), "the point is not committed")
        until(lambda: "step" in metrics(place), "the checkpoint is not in the metrics")
        shown = {name: float(value) for name, value in metrics(place).items()}
        equal((shown["step"], shown["saves_total"], shown["skipped"], shown["failed"]), (float(steps[0]), 2.0, 0.0, 0.0), str(shown))
        for name in ("bytes", "arena_bytes", "snapshot_seconds", "write_seconds", "digest_seconds", "verify_seconds"):
            assert shown[name] > 0, (name, shown)
        assert shown["digest_seconds"] <= shown["write_seconds"], shown
    finally:
        run.send_signal(signal.SIGTERM)  # a notice: the ranks save once more
        out = run.communicate(timeout=100)[0]
    with open(place + "/state/runs/r/out/rank-0.log") as file:
        out += file.read()
    found = re.search(r": step (\d+) is saved; exiting with status 75", out)
    assert found, out
    newest = int(found.group(1))
    done = subprocess.run([LOCKSTEP, "ckpt", "verify", "--json", place + "/ckpt"], capture_output=True, text=True)
    equal((done.returncode, json.loads(done.stdout)["points"][0]["step"]), (0, newest), done.stdout)


@test
def a_crash_names_the_checkpoint_from_which_the_job_continues(place):
    env = dict(os.environ, LOCKSTEP_STATE=place + "/state", OMP_NUM_THREADS="1", USE_LIBUV="0",
               LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
    with open(place + "/train.py", "w") as file:
        file.write(TRAIN)
    subprocess.run([LOCKSTEP, "run", "-q", "--name", "r", "-n", "2", "--", sys.executable, place + "/train.py", place + "/ckpt",
                    "19"], env=env, capture_output=True, text=True, timeout=300)
    done = subprocess.run([LOCKSTEP, "why", "--json", "r"], env=env, capture_output=True, text=True, timeout=120)
    crash = [verdict for verdict in json.loads(done.stdout)["verdicts"] if verdict["kind"] == "crash"]
    equal(len(crash), 1, done.stdout[:3000] + done.stderr)
    lines = [line["what"] for line in crash[0]["because"]]
    found = [line for line in lines if line.startswith("the job can continue from the checkpoint of step 15, which all ranks have verified")]
    equal(len(found), 1, str(lines))


@test
def a_checkpoint_of_ranks_at_different_steps_is_a_verdict(place):
    env = dict(os.environ, LOCKSTEP_STATE=place + "/state", OMP_NUM_THREADS="1", USE_LIBUV="0",
               LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
    with open(place + "/train.py", "w") as file:  # rank 1 counts its steps from 1: it saves one step too early
        file.write(TRAIN.replace("step = 0\n", "step = torch.distributed.get_rank()\n", 1).replace(
            "extra={\"step\": step}) and dies:", "extra={\"step\": step}) is not None and step == 10:").replace("replicated=True, ", ""))
    subprocess.run([LOCKSTEP, "run", "-q", "--name", "r", "-n", "2", "--", sys.executable, place + "/train.py", place + "/ckpt",
                    "19"], env=env, capture_output=True, text=True, timeout=300)
    done = subprocess.run([LOCKSTEP, "why", "--json", "r"], env=env, capture_output=True, text=True, timeout=120)
    found = [verdict for verdict in json.loads(done.stdout)["verdicts"] if verdict["kind"] == "corruption"]
    equal([(verdict["layer"], verdict["ranks"], verdict["cause"]) for verdict in found],
          [("checkpoint", [0, 1], "ranks saved one checkpoint in different steps")], done.stdout[:3000] + done.stderr)


@test
def replicas_that_differ_when_they_are_saved_are_a_verdict(place):
    env = dict(os.environ, LOCKSTEP_STATE=place + "/state", OMP_NUM_THREADS="1", USE_LIBUV="0",
               LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
    with open(place + "/train.py", "w") as file:
        file.write(TRAIN.replace("        step += 1\n", "        if step == 10 and torch.distributed.get_rank() == 1:\n"
                                 "            model.module.weight.data[0, 0] += 1\n        step += 1\n").replace(
            "assert checkpoints.wait", "checkpoints.wait").replace(", checkpoints.last_error", ""))
    subprocess.run([LOCKSTEP, "run", "-q", "--name", "r", "-n", "2", "--", sys.executable, place + "/train.py", place + "/ckpt",
                    "27"], env=env, capture_output=True, text=True, timeout=300)
    done = subprocess.run([LOCKSTEP, "why", "--json", "r"], env=env, capture_output=True, text=True, timeout=120)
    verdicts = json.loads(done.stdout)["verdicts"]
    found = [verdict for verdict in verdicts if verdict["kind"] == "corruption"]
    equal([(verdict["ranks"], verdict["cause"]) for verdict in found], [([0, 1], "two replicas differ; one of them is wrong")],
          done.stdout[:3000] + done.stderr)
    assert "checkpoint of step 15: tensor model.module.weight of rank 0 and rank 1" in found[0]["because"][0]["what"], found
    crash = [verdict for verdict in verdicts if verdict["kind"] == "crash"]
    lines = [line["what"] for verdict in crash for line in verdict["because"]]
    assert any(line.startswith("the job can continue from the checkpoint of step 7, which all") for line in lines), lines


STALE = """
import copy, sys, time
import torch
import lockstep
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader([torch.rand(8) for _ in range(64)], batch_size=8)
checkpoints = lockstep.Checkpointer(sys.argv[1])
first = None
step = 0
while step < 57:
    for batch in data:
        model(batch).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        first = first or copy.deepcopy(optimizer.state_dict())
        if step % 8 == 0:
            saved = checkpoints.save(step, model=model, optimizer=first if sys.argv[2] == "stale" else optimizer)
            assert saved and checkpoints.wait("verified", 90), checkpoints.last_error
        step += 1
        time.sleep(0.03)  # the rest of the step: notes and losses reach the judge in their order
checkpoints.close()
"""


def moments_verdicts(place, way):
    env = dict(os.environ, LOCKSTEP_STATE=place + "/state-" + way, OMP_NUM_THREADS="1",
               LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
    with open(place + "/train.py", "w") as file:
        file.write(STALE)
    subprocess.run([LOCKSTEP, "run", "-q", "--name", "r", "-n", "1", "--", sys.executable, place + "/train.py", place + "/ckpt-" + way,
                    way], env=env, check=True, capture_output=True, text=True, timeout=300)
    done = subprocess.run([LOCKSTEP, "why", "--json", "r"], env=env, capture_output=True, text=True, timeout=120)
    return [(verdict["layer"], verdict["cause"]) for verdict in json.loads(done.stdout)["verdicts"] if verdict["kind"] == "corruption"]


@test
def an_optimizer_that_stands_still_in_checkpoints_is_a_verdict(place):
    equal(moments_verdicts(place, "stale"),
          [("checkpoint", "optimizer moments in checkpoints do not change while the training goes on")])
    equal(moments_verdicts(place, "sound"), [])


need_torch()
main()
