# SPDX-License-Identifier: Apache-2.0
"""Programs that end while an operation of torch.distributed is open: kinds of operations, and ways to end.

A case is one of each.  The same script runs without lockstep and attached.  Without lockstep some of these
programs do not always end alike: torch's own threads ask for the interpreter's lock while it is being taken down.
So what is compared is not one run with one run: each rank of an attached program must end in a way in which a rank of
the bare one was seen to end, by as many runs of the bare one as that takes, up to TRIES; or, where the bare one was seen
to crash, with the program's own status.
"""
import os
import re
import resource
import signal

from twice import Job

TRIES = 12
DUMP = "a core dump"
CRASHES = -signal.SIGABRT, -signal.SIGSEGV  # which of them is a race, too
CRASHED = (CRASHES[0], "", "crashed")
LOST = "lost the other rank"

# The work must be open when Python begins to end: 12 MB take longer than the next line.  What is small comes
# behind two large ones, which keep both of gloo's threads busy.
HEAD = """
import os, signal, sys, threading, time
import torch, torch.distributed as dist
from torch import nn
device = torch.device("cpu")
if os.environ.get("CASE_BACKEND") == "nccl":
    # Several ranks on one device: NCCL must take them for hosts of their own.
    os.environ.update(NCCL_HOSTID="host" + os.environ["RANK"], NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo",
                      NCCL_IB_DISABLE="1")
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
dist.init_process_group(os.environ.get("CASE_BACKEND", "gloo"))
rank, world = dist.get_rank(), dist.get_world_size()
SIZE = 3000000
def big(size=SIZE):
    return torch.ones(size, device=device)
def small():
    return torch.ones(8, device=device)
def busy():
    return [dist.all_reduce(big(), async_op=True) for _ in range(2)]
def beside(call):
    began = threading.Event()
    def run():
        began.set()
        call()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    began.wait()
    time.sleep(0.01)  # nothing hangs on it: most of the time the call has begun by then
def ddp(**more):
    torch.manual_seed(1)
    net = nn.Sequential(*[nn.Linear(600, 600) for _ in range(6)]).to(device)
    return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1, **more)
def train(net, end=None):
    x = torch.ones(8, 600, device=device, requires_grad=True)
    if end:
        x.register_hook(lambda gradient: end())  # buckets have been launched by then, and nobody has waited
    net(x).sum().backward()
dist.all_reduce(small())
"""

# Kind of operation: what opens it.  finish() is the way to end.
OPENS = {
    "all_reduce": "w = dist.all_reduce(big(), async_op=True)\nfinish()",
    "all_reduce, dropped": "dist.all_reduce(big(), async_op=True)\nfinish()",
    "all_reduce, many": "w = [dist.all_reduce(big(300000), async_op=True) for _ in range(20)]\nfinish()",
    "all_reduce, future": "w = dist.all_reduce(big(), async_op=True).get_future()\nfinish()",
    "broadcast": "w = dist.broadcast(big(), 0, async_op=True)\nfinish()",
    "reduce": "w = dist.reduce(big(), 0, async_op=True)\nfinish()",
    "all_gather": "w = dist.all_gather([big() for _ in range(world)], big(), async_op=True)\nfinish()",
    "gather": "w = dist.gather(big(), [big() for _ in range(world)] if rank == 0 else None, 0, async_op=True)\nfinish()",
    "scatter": "w = dist.scatter(big(), [big() for _ in range(world)] if rank == 0 else None, 0, async_op=True)\nfinish()",
    "reduce_scatter": """
try:
    w = dist.reduce_scatter(big(), [big() for _ in range(world)], async_op=True)
except RuntimeError as error:
    print("refused", str(error).splitlines()[0])
    w = busy()
finish()
""",
    "all_to_all": """
try:
    w = dist.all_to_all_single(big(), big(), async_op=True)
except RuntimeError as error:
    print("refused", str(error).splitlines()[0])
    w = busy()
finish()
""",
    "isend, irecv": "w = [dist.isend(big(), 1 - rank), dist.irecv(big(), 1 - rank)]\nfinish()",
    "isend, irecv, batch": """
w = dist.batch_isend_irecv([dist.P2POp(dist.isend, big(), 1 - rank), dist.P2POp(dist.irecv, big(), 1 - rank)])
finish()
""",
    "send, recv": """
t = big()
beside(lambda: dist.send(t, 1) if rank == 0 else dist.recv(t, 0))
finish()
""",
    "barrier": "w = busy(), dist.barrier(async_op=True)\nfinish()",
    "bucket": "net = ddp()\ntrain(net)\ntrain(net, finish)\nfinish()",
    "bucket, hook": """
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
net = ddp()
net.register_comm_hook(None, default_hooks.allreduce_hook)
train(net)
train(net, finish)
finish()
""",
    "bucket, thread": "net = ddp()\ntrain(net)\nbeside(lambda: [train(net) for _ in range(50)])\nfinish()",
    "objects": """
held = [None] * world
beside(lambda: dist.all_gather_object(held, bytes(SIZE)))
finish()
""",
}

ENDS = {
    "end": "def finish():\n    pass",
    "exit": "def finish():\n    sys.exit(5)",
    "exception": "def finish():\n    raise ValueError('enough')",
    "_exit": "def finish():\n    os._exit(3)",
    "signal": "def finish():\n    os.kill(os.getpid(), signal.SIGTERM)",
    "handled signal": """
def handle(number, frame):
    sys.exit(7)
signal.signal(signal.SIGTERM, handle)
def finish():
    os.kill(os.getpid(), signal.SIGTERM)
""",
}

OWN = {"end": 0, "exit": 5, "exception": 1, "_exit": 3, "signal": -signal.SIGTERM, "handled signal": 7}  # statuses
ALL = [(operation, end) for operation in OPENS for end in ENDS]
# Each operation and each way to end, in turns those that take the interpreter down.  A backward that just ends has
# nothing open.
_ways = ("exit", "end", "exception")
SOME = [(operation, _ways[number % len(_ways)]) for number, operation in enumerate(OPENS)
        if not operation.startswith("bucket")]
SOME += [("bucket", "exit"), ("bucket", "exception"), ("bucket, hook", "exit"), ("bucket, thread", "end"),
         ("all_reduce", "_exit"), ("bucket", "signal"), ("broadcast", "handled signal")]


def allow_dumps():
    """Core dumps, where this machine makes any in the working directory; a small part is enough to know of one."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    soft = 1 << 20 if most == resource.RLIM_INFINITY else min(most, 1 << 20)
    resource.setrlimit(resource.RLIMIT_CORE, (soft, most))


def script(operation, end):
    return HEAD + ENDS[end] + "\n" + OPENS[operation]


def _words(status, text):
    """What a process prints while it crashes is a race of its threads.  Which rank loses the other one first, at which
    port and after how many operations, is one as well.
    """
    if status in CRASHES:
        return "crashed"
    if "ncclRemoteError" in text:
        return LOST
    text = re.sub(r"(?m)^(\[rank\d+\]:)?\[[WE] TCPStore.*\n((frame #|Exception raised from ).*\n|\n)*", "", text)
    text = re.sub(r"(127\.0\.0\.1\]?:|localhost<)\d+", r"\1PORT", text)
    text = re.sub(r"\b([Rr]ank ?|work: )\d+", r"\1N", text)
    return re.sub(r"0x[0-9a-f]+", "ADDRESS", text)


def run(place, case, attached, env=None):
    """What a user sees of it: status, output, errors of each rank; whether there is a core dump.

    env: more of the environment; "ours": that of attached ones alone.
    """
    env = dict(env or {})
    ours = env.pop("ours", {})
    env.update(ours if attached else {})
    job = Job(place, script(*case), attached, ranks=2, env=env)
    seen = job.end()
    dumps = sorted(name for name in seen.files if "core" in name)
    words = [_words(*pair) for pair in zip(seen.status, seen.err)]
    return tuple(zip(seen.status, seen.out, words)), bool(dumps)


class Ways:
    """All the ways in which a rank was seen to end.  Both run the same, and one may crash where the other does not."""

    def __init__(self):
        self.seen = set()  # (status, output, errors) of a rank; DUMP: there was a core dump
        self.statuses = set()

    def add(self, ranks, dumps):
        self.seen |= {CRASHED if rank[0] in CRASHES else rank for rank in ranks} | ({DUMP} if dumps else set())
        self.statuses.add(tuple(str(rank[0]) for rank in ranks))


class Compared:
    """One case: how it ended attached, and how without.

    bare: how the same program was seen to end without lockstep before; more ways are added to it.
    """

    def __init__(self, place, case, env=None, runs=1, bare=None):
        self.case, self.env, self.place = case, env, place
        self.number = 0
        self.bare, self.ours = bare or Ways(), Ways()
        if not self.bare.seen:
            self._run(False)
        for _ in range(runs):
            self._run(True)
        for _ in range(TRIES):
            if self.same:
                break
            self._run(False)

    def _run(self, attached):
        self.number += 1
        place = os.path.join(self.place, str(self.number))
        os.makedirs(place)
        (self.ours if attached else self.bare).add(*run(place, self.case, attached, self.env))

    @property
    def other(self):
        """How attached ranks ended and bare ones did not.

        Where bare ones crash, by a race in torch, an attached one that ends with the program's own status has won it.
        """
        crashes = any(way[0] in CRASHES for way in self.bare.seen)
        return {way for way in self.ours.seen - self.bare.seen if not (crashes and way[0] == OWN[self.case[1]])}

    @property
    def same(self):
        return not self.other

    @property
    def statuses(self):
        """(without, attached)"""
        return sorted(self.bare.statuses), sorted(self.ours.statuses)

    def difference(self):
        return "attached only: %r\nwithout lockstep: %r" % (self.other, self.bare.seen)
