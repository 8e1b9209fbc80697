# SPDX-License-Identifier: Apache-2.0
"""spawn - starts its own ranks by torch.multiprocessing.spawn, as many tutorials do."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

import job


def work(rank, args, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    fault = job.Fault(args, rank)
    inner = job.Model(args)
    inner.fault = fault
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        fault.begin(step)
        fault.loader()
        x, y = job.batch(args)
        loss = fault.loss(torch.nn.functional.cross_entropy(model(x), y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    ARGS = job.options(port=29611, world=2)
    mp.spawn(work, (ARGS, ARGS.world), nprocs=ARGS.world)
