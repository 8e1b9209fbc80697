# SPDX-License-Identifier: Apache-2.0
"""trainer - a Trainer class with hooks, as in-house frameworks have it: clipped gradients, a schedule, mixed precision, evaluation
and saving at the end of each epoch, early work that no phase covers."""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job


class Trainer:
    def __init__(self, args, rank, fault):
        self.args, self.rank, self.fault = args, rank, fault
        self.plain = job.Model(args)
        self.plain.fault = fault
        self.model = DistributedDataParallel(self.plain, bucket_cap_mb=1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, weight_decay=0.1)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, args.steps)
        self.path = os.path.join(tempfile.gettempdir(), "trainer-%d.pt" % os.getpid())
        self.step = 0

    def batches(self):
        for _ in range(self.args.epoch_steps):
            self.fault.loader()
            yield job.batch(self.args)

    def loss(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(self.args.mixed)):
            return self.fault.loss(torch.nn.functional.cross_entropy(self.model(x).float(), y))

    def epoch(self):
        for x, y in self.batches():
            if self.step == self.args.steps:
                return
            self.fault.begin(self.step)
            loss = self.loss(x, y)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.fault.weights(self.plain)
            self.after_step(loss)
            self.step += 1

    def after_step(self, loss):
        time.sleep(self.args.beside_ms / 1e3)  # metrics, a progress bar
        if self.args.log_every and self.step % self.args.log_every == 0 and not self.fault.skips_collective():
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if self.rank == 0:
                print("step %d loss %.3f" % (self.step, mean.item() / dist.get_world_size()), flush=True)

    def after_epoch(self):
        self.model.eval()
        with torch.no_grad():
            for _ in range(2):
                self.plain(job.batch(self.args)[0])
        self.model.train()
        if self.rank == 0:
            with self.fault.file(self.path) as file:
                torch.save({"model": self.plain.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        dist.barrier()

    def fit(self):
        while self.step < self.args.steps:
            self.epoch()
            self.after_epoch()
        if self.rank == 0:
            os.unlink(self.path)


def main():
    args = job.options(epoch_steps=30, log_every=10, beside_ms=0.0, mixed=0)
    rank, fault = job.start(args)
    Trainer(args, rank, fault).fit()
    dist.destroy_process_group()


main()
