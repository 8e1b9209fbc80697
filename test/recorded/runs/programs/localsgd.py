# SPDX-License-Identifier: Apache-2.0
"""localsgd - ranks train by themselves and average their parameters every few steps."""
import torch
import torch.distributed as dist

import job


def main():
    args = job.options(every=4)
    rank, fault = job.start(args)
    model = job.Model(args)
    model.fault = fault
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    for step in range(args.steps):
        fault.begin(step)
        fault.loader()
        x, y = job.batch(args)
        optimizer.zero_grad()
        loss = fault.loss(torch.nn.functional.cross_entropy(model(x), y))
        loss.backward()
        optimizer.step()
        fault.weights(model)
        if step % args.every == args.every - 1 and not fault.skips_collective():
            flat = torch.nn.utils.parameters_to_vector(model.parameters())
            dist.all_reduce(flat)
            torch.nn.utils.vector_to_parameters(flat / dist.get_world_size(), model.parameters())


main()
