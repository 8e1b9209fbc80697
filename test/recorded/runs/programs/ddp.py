# SPDX-License-Identifier: Apache-2.0
"""ddp - a plain data-parallel loop; with --accumulate micro-batches, --save-every and --eval-every."""
import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job


def evaluate(model, args):
    model.eval()
    with torch.no_grad():
        for _ in range(4):
            model(job.batch(args)[0])
    model.train()


def main():
    args = job.options(accumulate=1, save_every=0, eval_every=0, print_every=0)
    rank, fault = job.start(args)
    inner = job.Model(args)
    inner.fault = fault
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    path = os.path.join(tempfile.gettempdir(), "recorded-%d.pt" % os.getpid())
    for step in range(args.steps):
        fault.begin(step)
        optimizer.zero_grad()
        for micro in range(args.accumulate):
            fault.loader()
            x, y = job.batch(args)
            last = micro == args.accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = fault.loss(torch.nn.functional.cross_entropy(model(x), y) / args.accumulate)
                loss.backward()
        optimizer.step()
        fault.weights(inner)
        if fault.skips_collective():
            continue
        if args.print_every and step % args.print_every == 0:
            total = loss.detach().clone()
            dist.all_reduce(total)
            if rank == 0:
                print("step", step, "loss", total.item(), flush=True)
        if args.save_every and step % args.save_every == args.save_every - 1:
            if rank == 0:
                with fault.file(path) as file:
                    torch.save(model.state_dict(), file)
            dist.barrier()
        if args.eval_every and step % args.eval_every == args.eval_every - 1:
            evaluate(model, args)
    if rank == 0 and os.path.exists(path):
        os.unlink(path)


main()
