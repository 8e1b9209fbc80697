# SPDX-License-Identifier: Apache-2.0
"""ragged - sequences of all lengths, of which each rank has its own; who has the longest differs from step to step."""
import random

import torch
from torch.nn.parallel import DistributedDataParallel

import job


class Tagger(torch.nn.Module):
    def __init__(self, args, fault):
        super().__init__()
        self.args, self.fault = args, fault
        self.embed = torch.nn.Embedding(500, args.width)
        self.rnn = torch.nn.GRU(args.width, args.width, batch_first=True)
        self.head = torch.nn.Linear(args.width, 20)

    def forward(self, x):
        job.device(self.args.work_ms * x.shape[1] / self.args.length)
        self.fault.forward()
        return self.head(self.rnn(self.embed(x))[0])


def main():
    args = job.options(width=64, batch=8, length=24, spread=0.1)
    rank, fault = job.start(args)
    model = DistributedDataParallel(Tagger(args, fault))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    lengths = random.Random(rank)
    for step in range(args.steps):
        fault.begin(step)
        length = max(4, round(args.length * lengths.uniform(1 - args.spread, 1 + args.spread)))
        x, y = torch.randint(0, 500, (args.batch, length)), torch.randint(0, 20, (args.batch, length))
        optimizer.zero_grad()
        loss = fault.loss(torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()))
        loss.backward()
        optimizer.step()


main()
