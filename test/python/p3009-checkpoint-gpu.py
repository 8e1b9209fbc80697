# SPDX-License-Identifier: Apache-2.0
"""Tensors on a GPU are copied by the engine, not by torch: over a scripted driver, whose memory is the host's."""
import os
import subprocess

from tap import BUILD, PACKAGE, PYTHON, Skip, equal, main, need_torch, test

TRAIN = """
import sys, types
import torch
import lockstep
from lockstep.checkpoint import engine
engine.gpu_of = lambda tensor: 0  # to the driver every address is one of its own
torch.cuda.current_stream = lambda gpu: types.SimpleNamespace(cuda_stream=0)
directory = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.BatchNorm1d(256), torch.nn.Linear(256, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
def train():
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
train()
checkpoints = lockstep.Checkpointer(directory)
strided = torch.arange(12.0).reshape(3, 4).t()
assert checkpoints.begin(1, model=model, optimizer=optimizer, extra={"strided": strided}), checkpoints.last_error
kept = {name: value.clone() for name, value in model.state_dict().items()}
model[1].running_mean.add_(1)  # a buffer may change: it is copied
assert checkpoints.fence(), checkpoints.last_error
train()
assert checkpoints.wait("verified", 60), checkpoints.last_error
print(checkpoints.status()["device"])
assert checkpoints.begin(2, model=model, optimizer=optimizer), checkpoints.last_error
train()
print(checkpoints.fence(), checkpoints.last_error)
found = checkpoints.load_latest(model=model, optimizer=optimizer)
assert found.step == 1 and torch.equal(found.extra["strided"], strided)
print(all(torch.equal(value, kept[name]) for name, value in model.state_dict().items()))
checkpoints.close()
"""


@test
def tensors_of_a_gpu_are_copied_by_the_engine(place):
    driver = os.path.join(BUILD, "src", "device")
    if not os.path.exists(driver + "/libcuda.so.1"):
        raise Skip("no scripted driver in " + BUILD)
    script = place + "/script"
    with open(script, "w") as file:
        file.write("cuda.copy-us value 2000\n")
    env = dict(os.environ, PYTHONPATH=PACKAGE, LD_LIBRARY_PATH=driver, LOCKSTEP_FAKE_DEVICE=script,
               LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0"))
    done = subprocess.run([PYTHON, "-c", TRAIN, place + "/ckpt"], capture_output=True, text=True, timeout=300, env=env)
    equal(done.returncode, 0, done.stderr[-2000:])
    device, refused, same = done.stdout.splitlines()
    equal(device, "pinned")
    assert refused.startswith("False tensor ") and refused.endswith(" changed before the fence"), refused
    equal(same, "True")


need_torch()
main()
