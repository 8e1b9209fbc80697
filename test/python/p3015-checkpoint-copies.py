# SPDX-License-Identifier: Apache-2.0
"""What copies of a checkpoint to another node and to an object store took is known to the job."""
import json
import os
import subprocess
import sys
import time

from tap import BUILD, LOCKSTEP, SOURCE, Skip, equal, main, need_torch, test

TRAIN = """
import os, sys, time
import torch
import lockstep
model = torch.nn.Linear(300, 300)
optimizer = torch.optim.Adam(model.parameters())
checkpoints = lockstep.Checkpointer(sys.argv[1])
for step in range(12):
    model(torch.randn(4, 300)).pow(2).mean().backward()
    optimizer.step(); optimizer.zero_grad()
    if step == 6:
        assert checkpoints.save(step, model=model, optimizer=optimizer), checkpoints.last_error
        assert checkpoints.wait("verified", 60), checkpoints.last_error
        for stage in "replicated", "uploaded":
            assert checkpoints.wait(stage, 90), (stage, checkpoints.last_error)
    time.sleep(0.05)  # the rest of the step
time.sleep(1)  # the agent reads rings on a tick
checkpoints.close()
"""


def until(condition, what, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)  # looks again


def text_of(path):
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


@test
def times_of_copies_are_in_the_summary_of_the_run(place):
    store, checkpoints = place + "/store", place + "/ckpt"
    if subprocess.run(["/usr/bin/python3", "-c", "import botocore.auth"], capture_output=True).returncode:
        raise Skip("botocore is not installed (python3-botocore)")
    os.mkdir(store), os.mkdir(checkpoints)
    env = dict(os.environ, LOCKSTEP_STATE=place + "/state", OMP_NUM_THREADS="1", no_proxy="*", AWS_ACCESS_KEY_ID="key",
               AWS_SECRET_ACCESS_KEY="secret/+=word", AWS_REGION="test-1",
               LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
    with open(place + "/train.py", "w") as file:
        file.write(TRAIN)
    running = [subprocess.Popen(["/usr/bin/python3", SOURCE + "/test/t/s3-server.py", store], env=env, stderr=subprocess.DEVNULL)]
    try:
        with open(place + "/serve", "w") as out:
            running.append(subprocess.Popen([LOCKSTEP, "ckpt", "serve", checkpoints, "--listen", "127.0.0.1:0"], env=env, stdout=out))
        until(lambda: "pin " in text_of(place + "/serve") or " at http" in text_of(place + "/serve"), "no server")
        url = text_of(place + "/serve").split(" at ")[1].split(",")[0].strip()
        run = subprocess.Popen([LOCKSTEP, "run", "-q", "--name", "r", "-n", "1", "--", sys.executable, place + "/train.py", checkpoints],
                               env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        running.append(run)
        until(lambda: os.path.exists(checkpoints + "/step-6/rank-00000.verified") or run.poll() is not None, "nothing is verified")
        mirror = subprocess.run([LOCKSTEP, "ckpt", "mirror", url, place + "/peer"], env=env, capture_output=True, text=True, timeout=60)
        equal(mirror.returncode, 0, mirror.stderr)
        env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:" + text_of(store + "/port").strip()
        push = subprocess.run([LOCKSTEP, "ckpt", "push", checkpoints, "s3://bucket/run"], env=env, capture_output=True, text=True, timeout=60)
        equal(push.returncode, 0, push.stderr)
        out = run.communicate(timeout=120)[0]
        equal(run.returncode, 0, out + text_of(place + "/state/runs/r/out/rank-0.log"))
    finally:
        for process in running:
            process.kill()
            process.wait()
    done = subprocess.run([LOCKSTEP, "why", "--json", "r"], env=env, capture_output=True, text=True, timeout=60)
    copied = json.loads(done.stdout)["checkpoint"]["copied"]
    equal(copied["step"], 6, str(copied))
    assert 0 < copied["replicate_seconds"] < 60 and 0 < copied["upload_seconds"] < 60, copied
    with open(checkpoints + "/step-6/PEER") as file:
        equal(len(file.read().split("\n")), 3)


need_torch()
main()
