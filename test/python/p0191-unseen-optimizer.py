# SPDX-License-Identifier: Apache-2.0
"""Steps of trainings whose optimizer no hook sees, as torch.compile takes it in."""
import os
import subprocess

from ring import rings
from tap import BUILD, PYTHON, equal, main, need_torch, test

MODEL = """
import torch
model = torch.nn.Linear(8, 8)
def train():
    model(torch.randn(4, 8)).square().mean().backward()
def update():  # what a compiled optimizer does
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
"""
BATCHES = """
class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(8)
batches = iter(torch.utils.data.DataLoader(Data(), batch_size=4))
"""


def steps_of(place, script):
    folder = place + "/rings"
    os.makedirs(folder)
    environ = dict(os.environ, PYTHONPATH=os.path.join(BUILD, "bindings", "python", "lockstep", "site"), LOCKSTEP_RUN="test", LOCKSTEP_DIR=folder,
                   LOCKSTEP_RESTART="0", LOCKSTEP_DEBUG="1", RANK="0", WORLD_SIZE="1")
    done = subprocess.run([PYTHON, "-c", MODEL + script], capture_output=True, text=True, env=environ, timeout=100)
    equal(done.returncode, 0, done.stderr[-2000:])
    (ring,) = rings(folder)
    return ring.steps(), [event.step for event in ring.of("step_end")]


@test
def gradients_set_to_zero_end_a_step(place):
    begun, ended = steps_of(place, """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    for micro in range(2):
        train()
    update()
    optimizer.zero_grad()
""")
    # The first three are one; the newest, begun by the last call, has nothing in it.
    equal(begun, list(range(18)))
    equal(ended, list(range(17)))


@test
def many_backwards_are_a_step_each(place):
    begun, _ = steps_of(place, """
for step in range(100):
    train()
    update()
""")
    equal(len(begun), 100 - 64)


@test
def many_fetches_are_a_step_each(place):
    begun, _ = steps_of(place, BATCHES + """
for step in range(100):
    next(batches)
""")
    equal(len(begun), 100 - 64 + 1)
    os.rename(place + "/rings", place + "/before")
    begun, _ = steps_of(place, BATCHES + """
for step in range(100):
    next(batches)
    train()
    train()
""")
    equal(len(begun), 100 - 64 + 1)


@test
def an_optimizer_that_is_seen_says_where_steps_end(place):
    begun, ended = steps_of(place, """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    for micro in range(20):
        train()
    optimizer.step()
""")
    equal((begun[:8], ended), (list(range(8)), list(range(8))))


need_torch()
main()
