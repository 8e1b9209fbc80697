# SPDX-License-Identifier: Apache-2.0
"""images - epochs over a DataLoader with a DistributedSampler; workers start anew with each epoch, after which rank 0 saves."""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import job


class Pictures(Dataset):
    def __init__(self, args, rank, size):
        self.args, self.rank, self.size = args, rank, size
        self.epoch = 0

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        kind, _, value = self.args.fault.partition(":")
        late = self.epoch * self.args.epoch_steps >= self.args.at
        if late and (kind == "loaders" or (kind == "loader" and self.rank == self.args.bad)):
            time.sleep(float(value) / 1e3 / self.args.batch)
        generator = torch.Generator().manual_seed(index)
        picture = torch.rand(3, 16, 16, generator=generator)
        if index % 2:  # as augmentations do
            picture = picture.flip(-1)
        return picture, index % 10


class Net(torch.nn.Module):
    def __init__(self, args, fault):
        super().__init__()
        self.args, self.fault = args, fault
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(), torch.nn.Linear(32, 10))

    def forward(self, x):
        job.device(self.args.work_ms)
        self.fault.forward()
        return self.body(x)


def main():
    args = job.options(batch=16, epoch_steps=30, workers=0, keep_workers=0)
    rank, fault = job.start(args)
    world = dist.get_world_size()
    pictures = Pictures(args, rank, args.epoch_steps * args.batch * world)
    sampler = DistributedSampler(pictures, world, rank)
    loader = DataLoader(pictures, batch_size=args.batch, sampler=sampler, num_workers=args.workers,
                        persistent_workers=bool(args.workers and args.keep_workers))
    held_out = DataLoader(Pictures(args, -1, args.batch * 4), batch_size=args.batch)
    inner = Net(args, fault)
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    step = 0
    for epoch in range(max(1, args.steps // args.epoch_steps)):
        sampler.set_epoch(epoch)
        pictures.epoch = epoch
        model.train()
        for x, y in loader:
            fault.begin(step)
            optimizer.zero_grad()
            loss = fault.loss(torch.nn.functional.cross_entropy(model(x), y))
            loss.backward()
            optimizer.step()
            fault.weights(inner)
            step += 1
        schedule.step()
        model.eval()
        right = torch.zeros(1)
        with torch.no_grad():
            for x, y in held_out:
                right += (inner(x).argmax(1) == y).sum()
        dist.all_reduce(right)
        if rank == 0:
            print("epoch %d loss %.3f accuracy %.3f" % (epoch, loss.item(), right.item() / (64 * world)), flush=True)
            path = os.path.join(tempfile.gettempdir(), "images-%d.pt" % os.getpid())
            with fault.file(path) as file:
                torch.save(inner.state_dict(), file)
            os.unlink(path)
        dist.barrier()


main()
