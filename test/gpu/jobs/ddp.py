# SPDX-License-Identifier: Apache-2.0
"""ddp - DistributedDataParallel; with --accumulate, --compile, or --graph (the whole step in one CUDA graph)."""
import contextlib

import job

args = job.options()
torch, device, fault = job.start(args)
part = job.pieces(torch)
inner = part.Transformer(args).to(device)
example = job.random_ids(torch, args, device)
fault.calibrate(lambda: inner(example))
numbers = job.statistics(torch, device)
data = job.loader(torch, args, fault, job.RANK)


def parallel():
    model = torch.compile(inner) if args.compile else inner
    return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4)


def eager():
    model = parallel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(batches):
        optimizer.zero_grad()
        for micro in range(args.accumulate):
            ids = next(batches)["input_ids"].to(device)
            last = micro == args.accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = fault.loss(job.next_word_loss(torch, model(ids), ids) / args.accumulate)
                fault.device_work(1)
                loss.backward()
        optimizer.step()
        fault.all_reduce(numbers)
        return loss.detach()

    return step


def graph():
    """As torch's notes on CUDA graphs have it: some steps on a side stream, then one is captured and replayed."""
    import torch.distributed as dist
    optimizer = torch.optim.AdamW(inner.parameters(), lr=1e-3, capturable=True)
    ids = example.clone()

    def whole():
        optimizer.zero_grad(set_to_none=True)
        loss = job.next_word_loss(torch, inner(ids), ids)
        loss.backward()
        for parameter in inner.parameters():
            if parameter.numel() > 10000:
                dist.all_reduce(parameter.grad)
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            whole()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = whole()

    def step(batches):
        ids.copy_(next(batches)["input_ids"])
        fault.device_work(1)
        captured.replay()
        fault.all_reduce(numbers)
        return fault.loss(result.detach())

    step.end = captured.reset  # a communicator that a graph uses is not destroyed before it
    return step


job.train(torch, args, fault, data, graph() if args.graph else eager())
