# SPDX-License-Identifier: Apache-2.0
"""job - what the training programs of this folder share: options, device and groups, a small transformer, input, faults.

A fault is KIND or KIND:VALUE; it strikes the rank --bad at step --at, or from then on.  The environment of NCCL must be set
before torch is imported, so import this first.
"""
import argparse
import ctypes
import datetime
import gc
import json
import math
import os
import shutil
import signal
import sys
import threading
import time
import types

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
VOCABULARY = 512


def options(**defaults):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--at", type=int, default=50, help="step at which the fault begins")
    parser.add_argument("--fault", default="")
    parser.add_argument("--bad", type=int, default=1, help="rank with the fault")
    parser.add_argument("--ahead", action="store_true", help="the host does not wait for its device but every tenth step")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--inner", type=int, default=10, help="how often the inner layer of each MLP is applied")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    for name in ("accumulate", "micro"):
        parser.add_argument("--" + name, type=int, default=1)
    parser.add_argument("--turns", type=int, default=0, help="steps with and without lockstep in turns of so many: what it costs")
    for name in ("compile", "graph", "single"):
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--exact", action="store_true", help="only what computes the same bits each time")
    parser.set_defaults(**defaults)
    return parser.parse_args()


def environment(args):
    if args.device == "cuda":  # several ranks on one device: NCCL must take them for hosts of their own
        os.environ.update(NCCL_HOSTID="host%d" % RANK, NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    kind, _, value = args.fault.partition(":")
    share = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    if kind == "mps" and RANK == args.bad and share:
        os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "%d" % max(1, int(share) * float(value))
    if args.exact:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"


def load_aside():
    """What loads beside a job that is measured keeps to some processors until its own turn: the last quarter of them."""
    all_of_them = sorted(os.sched_getaffinity(0))
    if os.environ.get("JOB_GATE") and len(all_of_them) >= 8:
        os.sched_setaffinity(0, all_of_them[-(len(all_of_them) // 4):])
    return all_of_them


def gate(processors):
    """Waits for the bench, which lets one job after the other use the device: imports take longer than some jobs."""
    place = os.environ.get("JOB_GATE")
    if not place:
        return
    open(os.path.join(place, "ready.%d" % RANK), "w").close()
    while not os.path.exists(os.path.join(place, "go")):
        time.sleep(0.02)  # looks again
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), processors)
        except OSError:  # it has ended
            continue


class Fault:
    """Called by a program at the places where faults strike."""

    def __init__(self, args, torch, device, group_of_bad=None):
        kind, _, value = args.fault.partition(":")
        self.kind, self.value = kind, float(value or 0)
        self.args, self.torch, self.device = args, torch, device
        self.step, self.done, self.junk, self.work, self.count = 0, False, [], None, 0
        self.more_tokens = RANK in (group_of_bad or (args.bad,))

    def here(self):
        return RANK == self.args.bad and self.step >= self.args.at

    def strikes(self, kind):
        return self.kind == kind and self.here()

    def once(self, kind):
        if self.done or not self.strikes(kind):
            return False
        self.done = True
        return True

    def calibrate(self, forward):
        """How many products of two matrices are --fault device:RATIO in each block, by the device's own clock."""
        if self.kind != "device" or self.args.device != "cuda":
            return
        torch = self.torch
        self.work = torch.randn(1024, 1024, device=self.device)

        def spent(run, times):
            run()
            torch.cuda.synchronize()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(times):
                run()
            end.record()
            torch.cuda.synchronize()
            return begin.elapsed_time(end) / times

        with torch.no_grad():
            local, one = 3 * spent(forward, 3), spent(lambda: self.work @ self.work, 20)
        self.count = max(1, round((self.value - 1) * local / one))
        print("rank %d: %.1f ms of work a batch; one product %.3f ms, %d more" % (RANK, local, one, self.count), flush=True)

    def device_work(self, share):
        """Work for the device beyond that of the peers; share: which part of a step's this is."""
        if self.strikes("device"):
            if self.args.device == "cpu":
                time.sleep(self.value * 0.01 * share)  # this is the fault
                return
            with self.torch.no_grad():
                for _ in range(max(1, round(self.count * share))):
                    self.work @ self.work

    def begin(self, step):
        self.step = step
        if self.strikes("sleep"):
            time.sleep(self.value / 1e3)  # this is the fault
        if self.strikes("gc") and step % 4 == 0:
            if not self.junk:
                self.junk = [[i, [i]] for i in range(int(self.value))]
            gc.collect()
        if self.kind == "raise" and self.once("raise"):
            raise ValueError("bad sample 4711")
        if self.once("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.once("store"):
            ctypes.memset(8, 1, 8)
        if self.once("stop"):
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.once("gil"):
            ctypes.PyDLL(None).sleep(600)
        if self.once("kernel"):
            self.torch.cuda._sleep(1 << 62)
        if self.once("memory"):
            self.torch.empty(1 << 42, device=self.device)

    def load(self):
        if self.strikes("loader"):
            time.sleep(self.value / 1e3)  # this is the fault

    def length(self):
        more = self.kind == "tokens" and self.more_tokens and self.step >= self.args.at
        return int(self.args.length * (self.value if more else 1)) // 8 * 8

    def loss(self, loss):
        return loss * float("nan") if self.strikes("nan") else loss

    def all_reduce(self, tensor, group=None):
        """A collective that a rank leaves out, or enters with another shape."""
        import torch.distributed as dist
        if self.once("skip"):
            return
        flat = tensor.view(-1)
        dist.all_reduce(flat[:max(1, flat.numel() // 64)] if self.once("shape") else tensor, group=group)

def start(args, **more):
    """Imports torch, joins the job; returns torch, the device and the fault."""
    environment(args)
    processors = load_aside()
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if args.exact:
        torch.use_deterministic_algorithms(True)
    if args.device == "cuda":
        torch.cuda.set_device(0)
        dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=float(os.environ.get("JOB_TIMEOUT", "120"))))
    else:
        dist.init_process_group("gloo")
    dist.barrier()
    gate(processors)
    device = torch.device(args.device, 0) if args.device == "cuda" else torch.device("cpu")
    return torch, device, Fault(args, torch, device, **more)

def pieces(torch):
    """The modules of a small transformer, each with the ranks' part of its width (1: all of it)."""
    nn, functional = torch.nn, torch.nn.functional

    def attend(q, k, v):
        if hasattr(functional, "scaled_dot_product_attention"):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # torch 1.13
        return (scores + torch.full_like(scores, -1e9).triu(1)).softmax(-1) @ v

    class Attention(nn.Module):
        def __init__(self, width, heads, parts=1):
            super().__init__()
            self.head = width // heads
            self.q, self.k, self.v = (nn.Linear(width, width // parts, bias=False) for _ in range(3))
            self.out = nn.Linear(width // parts, width, bias=False)

        def forward(self, x):
            q, k, v = (part(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for part in (self.q, self.k, self.v))
            y = attend(q, k, v)
            return self.out(y.transpose(1, 2).flatten(-2))

    class Mlp(nn.Module):
        def __init__(self, width, hidden, inner):
            super().__init__()
            self.up, self.inner, self.down = nn.Linear(width, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, width)
            self.times = inner

        def forward(self, x):
            x = functional.gelu(self.up(x))
            for _ in range(self.times):
                x = functional.gelu(self.inner(x))
            return self.down(x)

    class Layer(nn.Module):
        def __init__(self, args, attention=None, mlp=None):
            super().__init__()
            self.first, self.second = nn.LayerNorm(args.width), nn.LayerNorm(args.width)
            self.attention = attention or Attention(args.width, 4)
            self.mlp = mlp or Mlp(args.width, 2 * args.width, args.inner)

        def forward(self, x):
            x = x + self.attention(self.first(x))
            return x + self.mlp(self.second(x))

    class Embedding(nn.Module):
        def __init__(self, args):
            super().__init__()
            self.words, self.places = nn.Embedding(VOCABULARY, args.width), nn.Embedding(2048, args.width)

        def forward(self, ids):
            return self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))

    class Head(nn.Module):
        def __init__(self, args):
            super().__init__()
            self.norm, self.out = nn.LayerNorm(args.width), nn.Linear(args.width, VOCABULARY, bias=False)

        def forward(self, x):
            return self.out(self.norm(x))

    class Transformer(nn.Module):
        def __init__(self, args, layer=Layer):
            super().__init__()
            self.embedding, self.head = Embedding(args), Head(args)
            self.layers = nn.ModuleList(layer(args) for _ in range(args.layers))

        def forward(self, ids):
            x = self.embedding(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    return argparse.Namespace(Attention=Attention, Mlp=Mlp, Layer=Layer, Embedding=Embedding, Head=Head, Transformer=Transformer)

def next_word_loss(torch, logits, ids):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

def random_ids(torch, args, device):
    return torch.randint(0, VOCABULARY, (args.batch, args.length), device=device)

def loader(torch, args, fault, part):
    """Batches of token ids by torch's loader; ranks of one part of the data get the same."""

    class Words(torch.utils.data.IterableDataset):
        def __iter__(self):
            random = torch.Generator().manual_seed(1000 + part)
            while True:
                fault.load()
                yield {"input_ids": torch.randint(0, VOCABULARY, (args.batch, fault.length()), generator=random)}

    return torch.utils.data.DataLoader(Words(), batch_size=None)

def reduce_gradients(fault, parameters, group, parts):
    """What a framework without DDP does: gradients travel in one buffer."""
    import torch
    from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = _flatten_dense_tensors(gradients)
    fault.all_reduce(flat, group)
    flat.div_(parts)
    for gradient, new in zip(gradients, _unflatten_dense_tensors(flat, gradients)):
        gradient.copy_(new)

class Times:
    """When each step ended, by the device's clock where there is one: what the verdicts' costs are held against."""

    def __init__(self, torch, args):
        self.torch, self.cuda, self.marks = torch, args.device == "cuda", []

    def mark(self):
        if self.cuda:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.monotonic())

    def write(self):
        place = os.environ.get("JOB_TIMES")
        if not place or not self.marks:
            return
        if self.cuda:
            self.torch.cuda.synchronize()
            steps = [a.elapsed_time(b) for a, b in zip(self.marks, self.marks[1:])]
        else:
            steps = [1e3 * (b - a) for a, b in zip(self.marks, self.marks[1:])]
        with open(os.path.join(place, "times.%d.json" % RANK), "w") as file:
            json.dump([round(step, 2) for step in steps], file)

class Turns:
    """Takes all of lockstep off this process and puts it on again: its functions that stand for torch's, stamps, NCCL's events."""

    WARM = 30  # steps before the first turn

    def __init__(self, args):
        import random
        self.steps, self.on, self.places = args.turns, True, []
        chance, self.order = random.Random(args.steps), []
        while args.turns and len(self.order) * args.turns < args.steps - self.WARM:
            self.order += chance.sample((True, False), 2)

    @staticmethod
    def ours(value):
        return isinstance(value, types.FunctionType) and hasattr(value, "__wrapped__") and \
            str(value.__globals__.get("__name__")).split(".")[0] in ("lockstep", "_lockstep_attached")

    def find(self):
        from lockstep import _pauses, _probe, _stamps
        self.stamps, self.library, self.pauses = _stamps.stamps, _probe.probe.library, _pauses
        self.stamp, self.dlsym = self.stamps.stamp, ctypes.cast(ctypes.CDLL(None).dlsym, ctypes.c_void_p).value
        owners = [module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"]
        owners += [one for module in owners for one in list(vars(module).values())
                   if isinstance(one, type) and str(one.__module__).startswith("torch")]
        for owner in {id(one): one for one in owners}.values():
            self.places += [(owner, name, value, value.__wrapped__) for name, value in list(vars(owner).items()) if self.ours(value)]

    def begin(self, step):
        step -= self.WARM
        if not self.steps or step < 0 or step % self.steps or not os.environ.get("LOCKSTEP_DIR"):
            return
        if not self.places:
            self.find()
        on = self.order[step // self.steps]
        if on == self.on:
            return
        self.on = on
        for owner, name, with_, without in self.places:
            setattr(owner, name, with_ if on else without)
        self.stamps.stamp = self.stamp if on else None
        self.library.nccl_watch(int(on))
        self.library.host_waits(self.dlsym if on else None)
        (gc.callbacks.append if on else gc.callbacks.remove)(self.pauses._callback)

    def write(self):
        place = os.environ.get("JOB_TIMES")
        if self.steps and place and RANK == 0:
            with open(os.path.join(place, "turns.json"), "w") as file:
                json.dump({"warm": self.WARM, "steps": self.steps, "order": self.order, "replaced": len(self.places)}, file)

class Memory:
    """What this process has resident, now and then."""

    def __init__(self, args):
        self.every, self.seen = max(1, args.steps // 20), []

    def look(self, step):
        if step % self.every == 0:
            with open("/proc/self/statm") as file:
                self.seen.append(int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE"))

def write_rest(losses, memory):
    place = os.environ.get("JOB_TIMES")
    if place:
        with open(os.path.join(place, "rest.%d.json" % RANK), "w") as file:
            json.dump({"losses": losses, "resident": memory.seen}, file)

def train(torch, args, fault, data, step_once):
    """The loop: step_once(batches) does one step on a list of batches of ids and returns the loss, or None."""
    import torch.distributed as dist
    times, batches, turns, memory, losses = Times(torch, args), iter(data), Turns(args), Memory(args), []
    for step in range(args.steps):
        turns.begin(step)
        memory.look(step)
        fault.begin(step)
        loss = step_once(batches)
        times.mark()
        if loss is not None and (not args.ahead or step % 10 == 9):
            value = loss.item()
            if step < 300:
                losses.append(value.hex())
            if step % 10 == 9:
                print("rank %d step %d loss %.4f" % (RANK, step + 1, value), flush=True)
                if math.isnan(value) and fault.kind != "nan":
                    print("rank %d: loss is not a number" % RANK, flush=True)
    times.write()
    turns.write()
    write_rest(losses, memory)
    keep_ring()
    getattr(step_once, "end", lambda: None)()
    dist.destroy_process_group()
    sys.stdout.flush()

def keep_ring():
    """What this rank was seen to do, for who wants to know more than the verdicts say."""
    place, folder = os.environ.get("JOB_RINGS"), os.environ.get("LOCKSTEP_DIR")
    for name in os.listdir(folder) if place and folder else ():
        if name.startswith("rank-%d." % RANK):
            shutil.copy(os.path.join(folder, name), place)

def statistics(torch, device):
    """What programs reduce beside the gradients, for their logs."""
    return torch.zeros(65536, device=device)
