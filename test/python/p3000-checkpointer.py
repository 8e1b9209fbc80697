# SPDX-License-Identifier: Apache-2.0
"""A training that is killed and resumed has the losses of one that was not, bit for bit."""
import os
import subprocess

from tap import BUILD, LOCKSTEP, PACKAGE, PYTHON, equal, main, need_torch, test

TRAIN = """
import os, random, signal, sys
import torch
sys.path.insert(0, os.environ["PACKAGE"])
import lockstep
directory, steps, dies = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(1); random.seed(1); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.3),
                            torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
model[4].weight = model[3].weight  # tied
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
data, sampler = torch.randn(256, 16), torch.Generator().manual_seed(5)
checkpoints = lockstep.Checkpointer(directory)
found = checkpoints.load_latest(model=model, optimizer=optimizer)
first = 0
if found:
    first = found.step + 1
    scheduler.load_state_dict(found.extra["scheduler"])
    sampler.set_state(found.extra["sampler"])
    assert found.extra["deep"] == {1: (2.5, [None, b"\\x00\\xff"]), "half": {}}, found.extra["deep"]
    print("resumed", found.step, flush=True)
for step in range(first, steps):
    batch = data[torch.randperm(256, generator=sampler)[:32]] * (1 + random.random())
    loss = model(batch).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step(); scheduler.step()
    print("loss", step, loss.item().hex(), flush=True)
    if step % 3 == 2:
        began = checkpoints.save(step, model=model, optimizer=optimizer, extra={
            "scheduler": scheduler.state_dict(), "sampler": sampler.get_state(),
            "deep": {1: (2.5, [None, b"\\x00\\xff"]), "half": {}}})
        assert began, checkpoints.last_error
        assert checkpoints.wait(timeout=60), checkpoints.last_error
    if step == dies:
        os.kill(os.getpid(), signal.SIGKILL)
print("weights", model[0].weight.detach().sum().item().hex(), flush=True)
checkpoints.close()
"""


def train(directory, steps, dies=-1):
    done = subprocess.run([PYTHON, "-c", TRAIN, directory, str(steps), str(dies)], capture_output=True, text=True,
                          timeout=300, env=dict(os.environ, PACKAGE=PACKAGE, LOCKSTEP_CKPT_LIBRARY=os.path.join(
                              BUILD, "liblockstep-ckpt.so.0")))
    assert done.returncode == (-9 if dies >= 0 else 0), done.stderr[-2000:]
    return done.stdout.splitlines()


@test
def a_killed_training_resumes_bit_for_bit(place):
    whole = train(place + "/whole", 20)
    assert "loss 7" in " ".join(whole)
    first = train(place + "/cut", 20, dies=10)
    equal(first, whole[:11])
    rest = train(place + "/cut", 20)
    equal(rest[0], "resumed 8")
    equal(rest[1:], whole[9:])


@test
def a_damaged_point_is_refused_and_the_older_one_taken(place):
    train(place + "/cut", 20, dies=10)
    path = place + "/cut/step-8/rank-00000.safetensors"
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) - 9)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    equal(train(place + "/cut", 9)[0], "resumed 5")
    done = subprocess.run([LOCKSTEP, "ckpt", "verify", place + "/cut"], capture_output=True, text=True)
    assert done.returncode == 0 and "step 8  verified" in done.stdout, done.stdout  # saved again


@test
def state_that_cannot_be_described_is_named(place):
    script = ("import os, sys; sys.path.insert(0, os.environ['PACKAGE'])\n"
              "import lockstep\n"
              "try:\n    lockstep.Checkpointer(sys.argv[1]).save(1, extra={'a': [object()]})\n"
              "except lockstep.CheckpointError as error:\n    print(error)\n")
    done = subprocess.run([PYTHON, "-c", script, place + "/odd"], capture_output=True, text=True,
                          env=dict(os.environ, PACKAGE=PACKAGE,
                                   LOCKSTEP_CKPT_LIBRARY=os.path.join(BUILD, "liblockstep-ckpt.so.0")))
    equal(done.stdout, "extra.a.0: object cannot be saved; give its state_dict(), or bytes\n")


need_torch()
main()
