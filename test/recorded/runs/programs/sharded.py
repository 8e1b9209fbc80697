# SPDX-License-Identifier: Apache-2.0
"""sharded - optimizer state is sharded (ZeRO 1), and a thread of the program prepares the next batch meanwhile."""
import queue
import threading

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import job


def prefetch(args, fault, out):
    for step in range(args.steps):
        late = fault.step >= args.at
        if late and (fault.kind == "loaders" or (fault.kind == "loader" and fault.rank == args.bad)):
            job.device(fault.value)
        out.put(job.batch(args))


def main():
    args = job.options()
    rank, fault = job.start(args)
    inner = job.Model(args)
    inner.fault = fault
    model = DistributedDataParallel(inner)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    batches = queue.Queue(2)
    threading.Thread(target=prefetch, args=(args, fault, batches), daemon=True).start()
    for step in range(args.steps):
        fault.begin(step)
        x, y = batches.get()
        loss = fault.loss(torch.nn.functional.cross_entropy(model(x), y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
