# SPDX-License-Identifier: Apache-2.0
"""The training of `lockstep demo --torch`: a small transformer that learns synthetic text.

A program like any other: DistributedDataParallel on gloo, a DataLoader, AdamW, checkpoints.  It
does not know of lockstep and does not import it.  Forward, backward and the reduction of the gradients are
real; each block's time is stretched to that of a device by waiting, so that several ranks fit two
processors.

faults.py makes the faults of the plan and writes down what it did.  No judge reads that.
"""
import argparse
import os
import random
import signal
import time
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks share the processors

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from faults import Faults  # noqa: E402

SYMBOLS, WIDTH, BLOCKS, SEQUENCES, LENGTH = 32, 48, 3, 4, 64
FORWARD, BACKWARD, OPTIMIZER = 0.28, 0.56, 0.06  # shares of a step that are a device's


# ---- time of the device ----

class Device:
    """Ends a piece of work when a device would have done it."""

    def __init__(self, faults):
        self.faults = faults
        self.began = 0.0

    def begin(self):
        self.began = time.monotonic()

    def end(self, seconds):
        slower = self.faults.slower
        rest = self.began + seconds * self.faults.work * slower - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        self.faults.slowed(seconds * self.faults.work * (slower - 1))


class Into(torch.autograd.Function):
    """Where a block begins, which in backward is where it ends."""

    @staticmethod
    def forward(context, x, device, seconds):
        context.device, context.seconds = device, seconds
        device.begin()
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        context.device.end(context.seconds)
        return gradient, None, None


class OutOf(torch.autograd.Function):
    @staticmethod
    def forward(context, x, device, seconds):
        context.device = device
        device.end(seconds)
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        context.device.begin()
        return gradient, None, None


# ---- model ----

class Block(nn.Module):
    def __init__(self, device, step_seconds):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu",
                                                batch_first=True, norm_first=True)
        self.device = device
        self.seconds = step_seconds / BLOCKS

    def forward(self, x, mask):
        x = Into.apply(x, self.device, self.seconds * BACKWARD)
        return OutOf.apply(self.layer(x, mask), self.device, self.seconds * FORWARD)


class Model(nn.Module):
    def __init__(self, device, faults, step_seconds):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.places = nn.Embedding(4 * LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(device, step_seconds) for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, SYMBOLS)
        self.faults = faults

    def forward(self, x):
        length = x.shape[1]
        self.faults.host("forward")
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.symbols(x) + self.places(torch.arange(length))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.faults.poison(x))


class Optimizer(torch.optim.AdamW):
    def watch(self, device, faults, seconds):
        self.device, self.faults, self.seconds = device, faults, seconds

    def step(self, closure=None):
        self.device.begin()
        self.faults.host("optimizer")
        rates = [group["lr"] for group in self.param_groups]
        if self.faults.frozen():
            for group in self.param_groups:
                group["lr"] = 0.0
        loss = super().step(closure)
        for group, rate in zip(self.param_groups, rates):
            group["lr"] = rate
        self.device.end(self.seconds)
        return loss


# ---- text ----

class Text(Dataset):
    """Sequences of a language in which each symbol has four that follow it: there is much to learn.

    With a directory, what a rank's batches begin from is read from a file of its own there.
    """

    BATCHES, BYTES = 16, 4096  # of that file; then they come again

    def __init__(self, seed, faults, directory=None, rank=0):
        chance = torch.Generator().manual_seed(seed)
        self.follow = torch.randint(SYMBOLS, (SYMBOLS, 4), generator=chance)
        self.seed, self.faults, self.file, self.begin = seed, faults, None, 0
        if directory:
            self.file = os.open(os.path.join(directory, "rank-%05d.batches" % rank),
                                os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            content = random.Random(seed * 4096 + rank)
            os.pwrite(self.file, bytes(content.getrandbits(8) for _ in range(self.BATCHES * self.BYTES)), 0)

    def _read(self, step):
        if self.file is not None:
            self.begin = zlib.crc32(os.pread(self.file, self.BYTES, step % self.BATCHES * self.BYTES))

    def __getitem__(self, place):
        step, number, length = place
        if number % SEQUENCES == 0:
            self.faults.input(step)
            self._read(step)
        chance = torch.Generator().manual_seed(self.begin + self.seed * 1000003 + step * 4096 + number)
        choice = torch.randint(4, (length + 1,), generator=chance).tolist()
        text = [int(torch.randint(SYMBOLS, (1,), generator=chance))]
        for i in range(length):
            text.append(int(self.follow[text[-1], choice[i]]))
        return torch.tensor(text)


class Batches:
    """The places of this rank's sequences, step by step."""

    def __init__(self, first, steps, rank, faults):
        self.range, self.rank, self.faults = range(first, steps), rank, faults

    def __len__(self):
        return len(self.range)

    def __iter__(self):
        for step in self.range:
            length = self.faults.length(step, LENGTH)
            yield [(step, self.rank * SEQUENCES + i, length) for i in range(SEQUENCES)]


# ---- checkpoints ----

def restore(path, model, optimizer, rank):
    """The first step to make."""
    if not path or not os.path.exists(path):
        return 0
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if rank == 0:
        print("restored from checkpoint of step %d" % state["step"], flush=True)
    return state["step"]


def save(path, step, model, optimizer, faults):
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with open(path + ".new", "wb") as file:
        torch.save(state, faults.slow_file(file))
    os.replace(path + ".new", path)


# ---- what ranks tell each other beside gradients ----

class Shared:
    """What rank 0 prints is of all ranks: losses by symbol over the world, tokens over a second group."""

    def __init__(self, faults):
        self.faults = faults
        self.second = dist.new_group()

    def mean(self, losses, text):
        by_symbol = torch.zeros(2, SYMBOLS)
        by_symbol[0].scatter_add_(0, text, losses)
        by_symbol[1].scatter_add_(0, text, torch.ones_like(losses))
        tokens = torch.tensor([float(text.numel())])
        late = self.faults.due("other-order")
        if late:
            dist.all_reduce(tokens, group=self.second)
        by_symbol = self._over_world(by_symbol)
        if not late:
            dist.all_reduce(tokens, group=self.second)
        return float(by_symbol[0].sum() / tokens)

    def _over_world(self, by_symbol):
        if self.faults.due("other-op"):
            dist.all_gather([torch.empty_like(by_symbol) for _ in range(dist.get_world_size())], by_symbol)
        elif self.faults.due("other-size"):
            dist.all_reduce(by_symbol[0])
        else:
            dist.all_reduce(by_symbol)
        return by_symbol


def evaluate(parallel, batch, seconds):
    until = time.monotonic() + seconds
    parallel.eval()
    with torch.no_grad():
        while time.monotonic() < until:
            parallel(batch[:, :-1])
    parallel.train()


# ---- the loop ----

def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-ms", type=float, default=100)
    parser.add_argument("--data-dir")
    parser.add_argument("--checkpoint-dir")
    parser.add_argument("--checkpoint-every", type=int, default=0)
    parser.add_argument("--plan")
    return parser.parse_args()


def one_step(parallel, optimizer, batch, shared, faults):
    """Mean loss over all ranks."""
    text = batch[:, 1:].flatten()
    logits = parallel(batch[:, :-1])
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), text, reduction="none")
    faults.middle()
    optimizer.zero_grad()
    faults.backward(losses.mean()).backward()
    mean = shared.mean(losses.detach(), text)
    optimizer.step()
    return mean


def main():
    given = options()
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    seconds = given.step_ms / 1e3
    faults = Faults(given.plan, rank, world, given.seed, seconds)
    time.sleep(faults.pause("slow-start"))
    device = Device(faults)
    torch.manual_seed(given.seed)
    model = Model(device, faults, seconds)
    optimizer = Optimizer(model.parameters(), lr=3e-3)
    optimizer.watch(device, faults, seconds * OPTIMIZER)
    path = given.checkpoint_dir and os.path.join(given.checkpoint_dir, "rank-00000.pt")
    first = restore(path, model, optimizer, rank)
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.1)
    shared = Shared(faults)
    loader = DataLoader(Text(given.seed, faults, given.data_dir, rank),
                        batch_sampler=Batches(first, given.steps, rank, faults))
    loss = float("nan")
    for step, batch in enumerate(loader, first):
        began = time.monotonic()
        faults.step(step)
        faults.flip(list(model.parameters()))
        loss = one_step(parallel, optimizer, batch, shared, faults)
        if rank == 0:
            print("step %d loss %.6f time %.1f ms" % (step, loss, (time.monotonic() - began) * 1e3),
                  flush=True)
        pause = faults.pause("eval")
        if pause:
            evaluate(parallel, batch, pause)
        if rank == 0 and path and given.checkpoint_every and (step + 1) % given.checkpoint_every == 0:
            save(path, step + 1, model, optimizer, faults)
    if rank == 0:
        print("done after %d steps: loss %.9g" % (given.steps, loss), flush=True)
    dist.barrier()
    faults.close()
    dist.destroy_process_group()


main()
