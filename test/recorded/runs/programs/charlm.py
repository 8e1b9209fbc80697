# SPDX-License-Identifier: Apache-2.0
"""charlm - a small language model as tutorials train it: warm-up and decay, clipped gradients, validation loss over all ranks."""
import math
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x, mask):
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class CharLM(torch.nn.Module):
    def __init__(self, args, fault):
        super().__init__()
        self.args, self.fault = args, fault
        self.token, self.position = torch.nn.Embedding(96, args.width), torch.nn.Embedding(args.length, args.width)
        self.blocks = torch.nn.ModuleList(Block(args.width) for _ in range(args.layers))
        self.head = torch.nn.Linear(args.width, 96)

    def forward(self, x):
        job.device(self.args.work_ms)
        self.fault.forward()
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), -math.inf), diagonal=1)
        h = self.token(x) + self.position(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h, mask)
        return self.head(h)


def text(args, generator):
    rows = torch.randint(0, 96, (args.batch, args.length + 1), generator=generator)
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, x, y):
    return torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def validate(model, args, generator):
    model.eval()
    total = torch.zeros(2)
    for _ in range(3):
        x, y = text(args, generator)
        total += torch.tensor([loss_of(model, x, y).item(), 1.0])
    dist.all_reduce(total)
    model.train()
    return (total[0] / total[1]).item()


def main():
    args = job.options(width=64, layers=2, length=32, batch=8, accumulate=1, eval_every=0, save_every=0, log_every=10)
    rank, fault = job.start(args)
    inner = CharLM(args, fault)
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 20) * 0.5 * (1 + math.cos(math.pi * min(1, step / args.steps))))
    generator = torch.Generator().manual_seed(1000 + rank)
    path = os.path.join(tempfile.gettempdir(), "charlm-%d.pt" % os.getpid())
    for step in range(args.steps):
        fault.begin(step)
        for micro in range(args.accumulate):
            fault.loader()
            x, y = text(args, generator)
            model.require_backward_grad_sync = micro == args.accumulate - 1
            loss = fault.loss(loss_of(model, x, y) / args.accumulate)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        fault.weights(inner)
        if step % args.log_every == 0 and rank == 0:
            print("step %d loss %.3f lr %.2g" % (step, loss.item(), schedule.get_last_lr()[0]), flush=True)
        if args.eval_every and step % args.eval_every == args.eval_every - 1:
            value = validate(model, args, generator)
            if rank == 0:
                print("step %d validation %.3f" % (step, value), flush=True)
        if args.save_every and step % args.save_every == args.save_every - 1 and rank == 0:
            with fault.file(path) as file:
                torch.save({"model": inner.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, file)
    dist.destroy_process_group()
    if os.path.exists(path):
        os.unlink(path)


main()
