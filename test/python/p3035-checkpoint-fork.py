# SPDX-License-Identifier: Apache-2.0
"""Processes that a program forks have its Checkpointer, and must not disturb it."""
import os
import subprocess

from tap import BUILD, LOCKSTEP, PACKAGE, PYTHON, equal, main, need_torch, test

TRAIN = """
import os, sys
import torch
sys.path.insert(0, os.environ["PACKAGE"])
import lockstep
checkpoints = lockstep.Checkpointer(sys.argv[1], arena_hold=60)
x = torch.arange(1000.0)
assert checkpoints.save(1, extra={"x": x}) and checkpoints.wait("verified", 60), checkpoints.last_error
pid = os.fork()
if pid == 0:
    saved = checkpoints.save(2, extra={"x": x + 5})
    print("child saved", saved, checkpoints.last_error, flush=True)
    print("child waited", checkpoints.wait("written", 5), checkpoints.last_error, flush=True)
    checkpoints.close()
    os._exit(0)
print("child ended with", os.waitpid(pid, 0)[1], flush=True)
assert checkpoints.save(3, extra={"x": x + 3}) and checkpoints.wait("verified", 60), checkpoints.last_error
assert float(checkpoints.load_latest().extra["x"][0]) == 3.0
print("writer", checkpoints.status()["writer_pid"], flush=True)
os._exit(1)  # without close(): the writer holds the last image
"""


AGAIN = TRAIN.split("assert checkpoints.save(1")[0] + """
found = checkpoints.load_latest()
print(found.step, checkpoints.status()["memory_bytes"] > 0, flush=True)
checkpoints.save(4, extra={})  # the memory is given back
checkpoints.wait("verified", 60)
checkpoints.close()
"""


def run(place, text):
    """Its status and lines.  The output goes to a file: the writer holds it open for longer."""
    with open(place + "/out", "w") as out:
        done = subprocess.run([PYTHON, "-c", text, place + "/ckpt"], stdout=out, stderr=subprocess.STDOUT, timeout=200,
                              env=dict(os.environ, PACKAGE=PACKAGE, LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0")))
    with open(place + "/out") as out:
        return done.returncode, out.read().splitlines()


@test
def a_forked_process_is_refused_and_the_program_goes_on(place):
    status, lines = run(place, TRAIN)
    equal(status, 1, str(lines))
    assert lines[0].startswith("child saved False the engine belongs to process "), lines
    assert lines[1].startswith("child waited False the engine belongs to process "), lines
    equal(lines[2], "child ended with 0")
    equal(subprocess.run([LOCKSTEP, "ckpt", "verify", place + "/ckpt"], capture_output=True).returncode, 0)
    status, lines = run(place, AGAIN)
    equal((status, lines[0]), (0, "3 True"), "close() of the forked process took the memory away")


need_torch()
main()
