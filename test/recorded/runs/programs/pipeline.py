# SPDX-License-Identifier: Apache-2.0
"""pipeline - a stage a rank: activations and their gradients go by send and recv, some micro-batches a step."""
import torch
import torch.distributed as dist

import job


class Stage(torch.nn.Module):
    def __init__(self, args, fault, last):
        super().__init__()
        self.args, self.fault = args, fault
        self.body = torch.nn.Sequential(torch.nn.Linear(128, args.width), torch.nn.ReLU(),
                                        torch.nn.Linear(args.width, 10 if last else 128))

    def forward(self, x):
        job.device(self.args.work_ms)
        self.fault.forward()
        return self.body(x)


def main():
    args = job.options(micro=4)
    rank, fault = job.start(args)
    last = dist.get_world_size() - 1
    stage = Stage(args, fault, rank == last)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3)
    for step in range(args.steps):
        fault.begin(step)
        optimizer.zero_grad()
        held = []
        for _ in range(args.micro):
            if rank == 0:
                fault.loader()
                x = torch.randn(args.batch, 128)
            else:
                x = torch.empty(args.batch, 128)
                dist.recv(x, rank - 1)
                x.requires_grad_()
            y = stage(x)
            if rank < last:
                dist.send(y.detach(), rank + 1)
            else:
                y = fault.loss(torch.nn.functional.cross_entropy(y, torch.randint(0, 10, (args.batch,))) / args.micro)
            held.append((x, y))
        for x, y in held:
            if rank == last:
                y.backward()
            else:
                grad = torch.empty_like(y)
                dist.recv(grad, rank + 1)
                y.backward(grad)
            if rank > 0:
                dist.send(x.grad, rank - 1)
        norm = sum(p.grad.square().sum() for p in stage.parameters())
        dist.all_reduce(norm)
        optimizer.step()


main()
