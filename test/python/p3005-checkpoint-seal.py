# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of torch.save and torch.distributed.checkpoint are sealed by a child, and never at the cost of the program."""
import json
import os
import subprocess
import time

from tap import BUILD, LOCKSTEP, Skip, equal, main, need_torch, python, test

ENV = {"LOCKSTEP_PROGRAM": LOCKSTEP, "OMP_NUM_THREADS": "1"}
BEGIN = """
import os, sys, time
import torch
import lockstep
place = sys.argv[1]
state = {"weight": torch.randn(64, 64)}
os.makedirs(place + "/step-7")
"""


def sealed(directory, seconds=90):
    """Waits for the seal; what `verify` says."""
    until = time.monotonic() + seconds
    while not os.path.exists(directory + "/lockstep.seal"):
        assert time.monotonic() < until, "no seal in %s: %s" % (directory, os.listdir(directory))
        time.sleep(0.05)  # looks again
    done = subprocess.run([LOCKSTEP, "ckpt", "verify", "--json", directory], capture_output=True, text=True)
    return json.loads(done.stdout)["points"][0]


@test
def torch_save_is_sealed(place):
    done = python(BEGIN + """
lockstep.seal_after(place, settle=0.5)
torch.save(state, place + "/step-7/a.pt")
torch.save(state, place + "/step-7/b.pt")  # another rank's, as it were
torch.save(state, open(place + "/unnamed.pt", "wb"))
""", ENV, [place])
    equal((done.returncode, done.stderr), (0, ""))
    equal(sealed(place + "/step-7")["state"], "verified")
    with open(place + "/step-7/b.pt", "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 1]))
    equal(sealed(place + "/step-7")["state"], "refused")
    assert not os.path.exists(place + "/lockstep.seal")


@test
def a_directory_that_is_saved_again_is_sealed_again(place):
    python(BEGIN + """
lockstep.seal_after(settle=0.3)
torch.save(state, place + "/step-7/a.pt")
while not os.path.exists(place + "/step-7/lockstep.seal"):
    time.sleep(0.05)
first = os.stat(place + "/step-7/lockstep.seal").st_ino, os.stat(place + "/step-7/lockstep.seal").st_mtime_ns
lockstep.checkpoint.seal.seals._children[os.path.realpath(place + "/step-7")].wait()
torch.save({"weight": torch.zeros(3)}, place + "/step-7/a.pt")
while (os.stat(place + "/step-7/lockstep.seal").st_ino, os.stat(place + "/step-7/lockstep.seal").st_mtime_ns) == first:
    time.sleep(0.05)
""", ENV, [place])
    equal(sealed(place + "/step-7")["state"], "verified")


@test
def what_cannot_be_sealed_is_one_line_and_nothing_fails(place):
    done = python(BEGIN + """
with open(place + "/step-7/model.safetensors", "wb") as file:
    file.write(b"\\\\0" * 5000)
lockstep.seal_after(settle=0.3)
torch.save(state, place + "/step-7/a.pt")
for child in lockstep.checkpoint.seal.seals._children.values():
    child.wait()
os.environ["LOCKSTEP_PROGRAM"] = place + "/none"
os.makedirs(place + "/step-8")
torch.save(state, place + "/step-8/a.pt")
for child in lockstep.checkpoint.seal.seals._children.values():
    child.wait()
lockstep.seal_after(False)
os.makedirs(place + "/step-9")
torch.save(state, place + "/step-9/a.pt")
print("trains on", sorted(lockstep.checkpoint.seal.seals._children)[-1][-6:])
""", ENV, [place])
    equal((done.returncode, done.stdout), (0, "trains on step-8\n"), done.stderr)
    lines = done.stderr.splitlines()
    equal(len(lines), 2, lines)
    assert "step-7 is not sealed: " in lines[0] and "model.safetensors" in lines[0], lines
    assert "step-8 is not sealed: " in lines[1], lines


@test
def the_environment_switches_it_on_under_a_launcher(place):
    script = place + "/train.py"
    with open(script, "w") as file:
        file.write("import os, sys, torch\nos.makedirs(sys.argv[1] + '/step-3')\n"
                   "torch.save({'a': torch.ones(9)}, sys.argv[1] + '/step-3/model.pt')\n")
    import sys
    done = subprocess.run([LOCKSTEP, "run", "-q", "-n", "1", "--", sys.executable, script, place], capture_output=True, text=True,
                          timeout=100, env=dict(os.environ, LOCKSTEP_SEAL="1", LOCKSTEP_STATE=place + "/state", **ENV))
    equal(done.returncode, 0, done.stderr)
    equal(sealed(place + "/step-3")["state"], "verified")


@test
def dcp_saves_are_sealed(place):
    try:
        import torch.distributed.checkpoint  # noqa: F401
    except ImportError:
        import torch
        raise Skip("torch %s has no torch.distributed.checkpoint" % torch.__version__) from None
    done = python(BEGIN + """
import torch.distributed.checkpoint as dcp
lockstep.seal_after(place, settle=0.3)
dcp.save(state, checkpoint_id=place + "/step-10")
dcp.save(state, storage_writer=dcp.FileSystemWriter(place + "/step-11"))
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
dcp.async_save(state, checkpoint_id=place + "/step-12").result()
""", ENV, [place])
    equal(done.returncode, 0, done.stderr)
    for step in 10, 11, 12:
        equal(sealed(place + "/step-%d" % step)["state"], "verified")


need_torch()
main()
