# SPDX-License-Identifier: Apache-2.0
"""The callbacks for Lightning and Hugging Face's Trainer save and resume.

Debian has neither package: small trainers that call the callbacks in the order of the real ones stand for them.
"""
import os

from tap import BUILD, equal, main, need_torch, python, test

ENV = {"LOCKSTEP_CKPT_LIBRARY": os.path.join(BUILD, "liblockstep-ckpt.so.0"), "OMP_NUM_THREADS": "1"}
BEGIN = """
import sys, types
import torch
import lockstep, lockstep.lightning, lockstep.transformers
directory, last = sys.argv[1], int(sys.argv[2])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
optimizer = torch.optim.Adam(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
def train():
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.item().hex()
"""
LIGHTNING = BEGIN + """
class Loop:  # Lightning's loops have these two
    done = 0
    def state_dict(self):
        return {"epoch_loop.batch_progress": {"total": {"ready": self.done}}}
    def load_state_dict(self, state):
        self.done = state["epoch_loop.batch_progress"]["total"]["ready"]
trainer = types.SimpleNamespace(optimizers=[optimizer], lr_scheduler_configs=[types.SimpleNamespace(scheduler=scheduler)],
                                fit_loop=Loop(), global_step=0)
callback = lockstep.lightning.Checkpoint(directory, interval=3)
callback.on_fit_start(trainer, model)
trainer.global_step = trainer.fit_loop.done // 2
while trainer.global_step < last:
    for batch in range(2):  # two batches are one step
        trainer.fit_loop.done += 1
        if batch == 1:
            print(trainer.global_step, train())
            trainer.global_step += 1
        callback.on_train_batch_end(trainer, model, None, None, batch)
callback._checkpoints.wait(timeout=60)
callback.teardown(trainer, model, "fit")
"""
TRANSFORMERS = BEGIN + """
state = types.SimpleNamespace(global_step=0)
given = dict(model=model, optimizer=optimizer, lr_scheduler=scheduler, train_dataloader=None)
callback = lockstep.transformers.Checkpoint(directory, interval=3)
callback.on_train_begin(None, state, None, **given)
while state.global_step < last:
    print(state.global_step, train())
    state.global_step += 1
    callback.on_step_end(None, state, None, **given)
callback._checkpoints.wait(timeout=60)
callback.on_train_end(None, state, None, **given)
"""


def resumes(script, place):
    def train(name, last):
        done = python(script, ENV, [place + name, str(last)])
        equal(done.returncode, 0, done.stderr[-2000:])
        return done.stdout.splitlines()
    whole = train("/whole", 9)
    equal(len(whole), 9)
    equal(train("/cut", 6), whole[:6])
    equal(train("/cut", 9), whole[5:])  # the point is of step 5: (5 + 1) % 3 == 0


@test
def lightning_resumes_bit_for_bit(place):
    resumes(LIGHTNING, place)


@test
def hugging_faces_trainer_resumes_bit_for_bit(place):
    resumes(TRANSFORMERS, place)


need_torch()
main()
