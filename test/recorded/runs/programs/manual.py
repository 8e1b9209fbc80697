# SPDX-License-Identifier: Apache-2.0
"""manual - no DistributedDataParallel: gradients reduced by hand, and most of the time spent outside of what torch sees."""
import time

import torch
import torch.distributed as dist

import job


def main():
    args = job.options(outside_ms=20.0)
    rank, fault = job.start(args)
    model = job.Model(args)
    model.fault = fault
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        fault.begin(step)
        time.sleep(args.outside_ms / 1e3)
        fault.loader()
        x, y = job.batch(args)
        loss = fault.loss(torch.nn.functional.cross_entropy(model(x), y))
        optimizer.zero_grad()
        loss.backward()
        if fault.skips_collective():
            continue
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        optimizer.step()


main()
