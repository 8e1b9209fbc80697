# SPDX-License-Identifier: Apache-2.0
"""contrast - embeddings gathered from all ranks, then gradients reduced by hand in buckets, asynchronously."""
import torch
import torch.distributed as dist

import job


def main():
    args = job.options(outside_ms=0.0)
    rank, fault = job.start(args)
    world = dist.get_world_size()
    model = job.Model(args)
    model.fault = fault
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        fault.begin(step)
        fault.loader()
        x, _ = job.batch(args)
        own = torch.nn.functional.normalize(model(x + 0.1 * torch.randn_like(x)), dim=1)
        gathered = [torch.empty_like(own) for _ in range(world)]
        dist.all_gather(gathered, own.detach())
        gathered[rank] = own
        other = torch.cat(gathered)
        target = torch.arange(args.batch) + rank * args.batch
        loss = fault.loss(torch.nn.functional.cross_entropy(own @ other.t() / 0.1, target))
        optimizer.zero_grad()
        loss.backward()
        if fault.skips_collective():
            continue
        works = [(dist.all_reduce(p.grad, async_op=True), p) for p in reversed(list(model.parameters()))]
        for work, parameter in works:
            work.wait()
            parameter.grad /= world
        optimizer.step()
        fault.weights(model)


main()
