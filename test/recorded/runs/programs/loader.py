# SPDX-License-Identifier: Apache-2.0
"""loader - batches from a DataLoader with worker processes."""
import time

import torch
from torch.nn.parallel import DistributedDataParallel

import job


class Samples(torch.utils.data.Dataset):
    def __init__(self, args, rank):
        self.args, self.rank = args, rank

    def __len__(self):
        return self.args.steps * self.args.batch

    def __getitem__(self, index):
        kind, _, value = self.args.fault.partition(":")
        late = index >= self.args.at * self.args.batch
        if late and (kind == "loaders" or (kind == "loader" and self.rank == self.args.bad)):
            time.sleep(float(value) / 1e3 / self.args.batch)
        return torch.randn(64), index % 10


def main():
    args = job.options(workers=1)
    rank, fault = job.start(args)
    inner = job.Model(args)
    inner.fault = fault
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(Samples(args, rank), batch_size=args.batch, num_workers=args.workers)
    for step, (x, y) in enumerate(loader):
        if fault.kind not in ("loader", "loaders"):
            fault.begin(step)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
