# SPDX-License-Identifier: Apache-2.0
"""Training loops in one process, as people write them: steps and phases in the ring are what the
script did, and all that a user sees is the same with and without lockstep.
"""
import os
import pty
import re
import select
import signal
import struct
import subprocess

from ring import rings
from tap import PYTHON, equal, main, need_torch, test
from twice import attached, base_env, twice

need_torch()

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
def data(n=12, size=4, **more):
    g = torch.Generator().manual_seed(2)
    return DataLoader(TensorDataset(torch.randn(n, 8, generator=g), torch.randn(n, 1, generator=g)),
                      batch_size=size, **more)
def say(loss):
    print(loss.detach().numpy().tobytes().hex())
"""
STEP = ["data", "forward", "backward", "optimizer"]


def one(found):
    equal(len(found), 1, "rings")
    ring = found[0]
    equal((ring.rank, ring.world, ring.dropped, ring.lost, ring.closed), (0, 1, 0, 0, 1))
    equal(ring.check_nesting(), [])
    return ring


@test
def a_plain_loop_with_eval_scheduler_and_checkpoint(place):
    seen, found = twice(place, HEAD + """
sched = torch.optim.lr_scheduler.StepLR(opt, 1)
train, val = data(), data(8)
for epoch in range(2):
    net.train()
    for x, y in train:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        say(loss)
    sched.step()
    net.eval()
    with torch.no_grad():
        print(sum(nn.functional.mse_loss(net(x), y).item() for x, y in val))
    torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, "last.pt")
print(sched.get_last_lr(), type(opt).step.__name__)
""")
    equal((seen.status, sorted(seen.files)), ([0], ["last.pt"]))
    ring = one(found)
    equal(ring.steps(), [0, 1, 2, 3, 4, 5])
    equal([e.step for e in ring.of("step_end")], [0, 1, 2, 3, 4, 5])
    # Loss is that which the script printed, bit by bit.
    printed = [struct.unpack("<f", bytes.fromhex(line))[0]
               for line in re.findall("^[0-9a-f]{8}$", seen.out[0], re.M)]
    equal([value for _, value in ring.metrics("loss")], printed)
    equal([step for step, _ in ring.metrics("grad_norm")], ring.steps())
    for step in (0, 1, 4):
        equal(ring.phases(step), STEP, "step %d" % step)
    # The loader is asked once more at an epoch's end; then eval with its own fetches, then the save.
    after = ring.phases(2)[len(STEP):]
    equal(after, ["data", "eval", "data", "data", "data", "data", "checkpoint"])
    equal(ring.phases(3), ["data"] + STEP)  # the new epoch's iterator, then the fetch
    equal(ring.metrics("micro_batches"), [(step, 1) for step in range(6)])


@test
def gradients_accumulated_over_micro_batches_are_one_step(place):
    _, found = twice(place, HEAD + """
for i, (x, y) in enumerate(data(24)):
    loss = nn.functional.mse_loss(net(x), y) / 3
    loss.backward()
    if i % 3 == 2:
        opt.step()
        opt.zero_grad()
    say(loss)
""")
    ring = one(found)
    equal(ring.steps(), [0, 1])
    equal(ring.phases(0), ["data", "forward", "backward"] * 3 + ["optimizer"])
    equal(ring.metrics("micro_batches"), [(0, 3), (1, 3)])


@test
def two_networks_in_turns_on_one_batch_are_one_step(place):
    _, found = twice(place, HEAD + """
other = nn.Linear(1, 1)
opt2 = torch.optim.SGD(other.parameters(), lr=0.1)
for x, y in data():
    loss = other(net(x).detach()).pow(2).mean()
    opt2.zero_grad(); loss.backward(); opt2.step()
    loss = other(net(x)).sub(y).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    say(loss)
""")
    ring = one(found)
    equal(ring.steps(), [0, 1, 2])
    equal(ring.phases(1), ["data", "forward", "backward", "optimizer", "backward", "optimizer"])


@test
def without_a_loader_steps_end_with_their_last_optimizer(place):
    _, found = twice(place, HEAD + """
second = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
second.param_groups[0]["params"][0].grad = torch.ones(1)
for i in range(5):
    x = torch.randn(4, 8)
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    second.step()
    say(loss)
""")
    ring = one(found)
    # The last optimizer call begins the next step, which nothing then fills.
    equal(ring.steps(), [0, 1, 2, 3, 4, 5])
    for step in range(5):
        equal(ring.phases(step), ["backward", "optimizer", "optimizer"], "step %d" % step)
    equal(len(ring.metrics("loss")), 5)


@test
def a_scaler_that_skips_the_optimizer_ends_the_step_all_the_same(place):
    seen, found = twice(place, HEAD + """
import collections
from torch.cuda.amp.grad_scaler import GradScaler, OptState
class HostScaler(GradScaler):  # torch 1.13 has none for the host
    def __init__(self):
        super().__init__(enabled=False)
        self._enabled, self._scale, self._growth_tracker = True, torch.ones(1), torch.zeros(1)
        self.update()
    def unscale_(self, optimizer):
        bad = any(not p.grad.isfinite().all() for g in optimizer.param_groups for p in g["params"])
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = {
            "cpu": torch.tensor(float(bad))}
    def update(self):
        self._per_optimizer_states = collections.defaultdict(
            lambda: {"stage": OptState.READY, "found_inf_per_device": {}})
scaler = HostScaler()
calls = []
for i, (x, y) in enumerate(data(16)):
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    (loss * float("inf") if i == 1 else loss).backward()
    before = net[0].weight.clone()
    scaler.step(opt)
    scaler.update()
    calls.append(bool((before != net[0].weight).any()))
    say(loss)
print(calls)
""")
    assert "[True, False, True, True]" in seen.out[0], seen.out
    ring = one(found)
    equal(ring.steps(), [0, 1, 2, 3])
    for step in range(4):
        equal(ring.phases(step)[:4], STEP, "step %d" % step)


@test
def what_is_said_by_hand_holds(place):
    seen, found = attached(place, HEAD + """
import lockstep
ids = DataLoader(torch.ones(12, 16, dtype=torch.int64), batch_size=4)
for number, x in enumerate(ids, 10):
    with lockstep.step(number):
        for part in x.split(2):
            net(part[:, :8].float()).pow(2).mean().backward()
            opt.step()
with torch.no_grad():
    for x in ids: break  # an evaluation that is cut short
for x, y in data(): pass
""")
    equal((seen.status, seen.err), ([0], [""]))
    ring = one(found)
    equal(ring.steps(), [0, 10, 11, 12])  # the first fetch came before the first word
    equal(ring.phases(11), ["backward", "optimizer"] * 2 + ["data", "forward"])
    equal(ring.metrics("micro_batches"), [(n, i) for n in (10, 11, 12) for i in (1, 2)])
    equal(ring.phases().count("eval"), 1)
    # The fetches after it are not part of it.
    after = [event.detail for event in ring.of("phase_begin", "phase_end") if event.lane == 0]
    equal(after[after.index("eval"):].count("forward"), 6)


@test
def warnings_name_the_line_of_the_program(place):
    seen, _ = twice(place, HEAD + """
import warnings
class Old:
    def __init__(self, level): self.level = level
    def __reduce__(self):  # called by the pickler below torch.save
        warnings.warn("Old is old", stacklevel=self.level)
        return Old, (self.level,)
class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g):
        for level in range(2, 7): warnings.warn("level %d" % level, stacklevel=level)
        return g
for x, y in data():
    loss = Step.apply(net(x)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    say(loss)
for level in range(2, 7):
    torch.save(Old(level), "old.pt")
""")
    # With equal words all along the stack; and the program's own lines are among them.
    assert seen.err[0].count("script.py") >= 2, seen.err[0]
    assert "lockstep" not in seen.err[0], seen.err[0]


@test
def a_closure_is_inside_its_optimizer(place):
    _, found = twice(place, HEAD + """
opt = torch.optim.LBFGS(net.parameters(), max_iter=2)
for x, y in data():
    def closure():
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        return loss
    say(opt.step(closure))
""")
    ring = one(found)
    equal(ring.steps(), [0, 1, 2])
    equal(set(ring.phases(1)), {"data", "forward", "optimizer", "backward"})
    equal(ring.phases(1).count("optimizer"), 1)


@test
def workers_write_no_lane_and_open_no_ring(place):
    for how in ("fork", "spawn"):
        _, found = twice(os.path.join(place, how), HEAD.replace("import torch\n", "import torch, os\n", 1)
                         .replace("net =", "if __name__ == '__main__':\n  pass\nnet =", 1) + """
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i):
        assert torch.utils.data.get_worker_info() is not None
        for _ in data(4): pass  # a worker that has a loader of its own
        return torch.full((16,), i, dtype=torch.int64)
if __name__ == "__main__":
    loader = DataLoader(Rows(), batch_size=4, num_workers=%d, persistent_workers=True, prefetch_factor=2,
                        multiprocessing_context="%s")
    for epoch in range(2):
        for x in loader:
            loss = net(x[:, :8].float()).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            say(loss)
""" % (2 if how == "fork" else 1, how))  # each that is spawned imports torch anew
        ring = one(found)
        equal(ring.steps(), [0, 1, 2, 3, 4, 5], how)
        equal(ring.metrics("tokens"), [(step, 64) for step in range(6)])
        equal(ring.metrics("length_squares"), [(step, 4 * 16 * 16) for step in range(6)])
        equal([tid != 0 for tid in ring.tids], [True] + [False] * 7, "lanes")
        equal(ring.tids[0], ring.pid)


@test
def an_exception_in_the_data_set_is_noted_and_shown_as_ever(place):
    seen, found = twice(place, HEAD + """
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i):
        if i == 9:
            raise KeyError("row %d is damaged" % i)
        return torch.randn(8)
def train():
    for x in DataLoader(Rows(), batch_size=4):
        loss = net(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
train()
""")
    equal(seen.status, [1])
    ring = one(found)
    equal(len(ring.notes()), 1)
    assert ring.notes()[0].startswith("uncaught KeyError: 'row 9 is damaged' at script.py:"), ring.notes()
    equal(ring.steps(), [0, 1, 2])


@test
def ends_of_all_kinds_are_as_ever(place):
    for number, (end, status, closed) in enumerate((  # those that torch cannot notice are in p1000
            ("import sys; sys.exit(3)", 3, 1),
            ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, 0),
            ("import sys; sys.excepthook = lambda *a: print('mine', a[0].__name__); 1 / 0", 1, 1))):
        seen, found = twice(os.path.join(place, str(number)), HEAD + """
for x, y in data():
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    say(loss)
    if len([1]) and opt.state[net[0].weight]["step"] == 2:
        %s
""" % end)
        equal(seen.status, [status], end)
        equal((len(found), found[0].closed, found[0].steps()), (1, closed, [0, 1]), end)
        if "1 / 0" in end:
            assert found[0].notes()[0].startswith("uncaught ZeroDivisionError"), found[0].notes()
        else:
            equal(found[0].notes(), [], end)


@test
def ctrl_c_comes_through(place):
    seen, found = twice(place, HEAD + """
import itertools, time
try:
    for i in itertools.count():
        loss = net(torch.randn(4, 8)).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if i == 3: print("ready", flush=True); time.sleep(100)
except KeyboardInterrupt:
    print("interrupted")
    raise
""", during=lambda job: job.signal_when_asleep(signal.SIGINT, "ready"))
    assert seen.status in ([-signal.SIGINT], [1]), seen  # some versions of torch end it otherwise
    assert found[0].notes()[0].startswith("uncaught KeyboardInterrupt"), found[0].notes()


@test
def a_fork_after_attach_and_threads_that_fail(place):
    seen, found = twice(place, HEAD + """
import os, sys, threading
for x, y in data():
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    pid = os.fork()
    if pid == 0:  # trains on, on its own
        try:
            for x, y in data():
                nn.functional.mse_loss(net(x), y).backward(); opt.step()
        except RuntimeError:
            pass  # a newer torch refuses that
        os._exit(7)
    print(os.waitpid(pid, 0)[1] >> 8, flush=True)
def fail(): raise OSError("the log is gone")
sys.stderr.flush()
t = threading.Thread(target=fail, name="logger"); t.start(); t.join()
import subprocess
print(subprocess.run([sys.executable, "-c", "import torch; t = torch.ones(1, requires_grad=True); "
                      "t.sum().backward(); print(t.grad)"], stdout=subprocess.PIPE).stdout)
""", env={"RANK": "0", "WORLD_SIZE": "1"})
    ring = one(found)
    equal(ring.steps(), [0, 1, 2])
    equal(ring.phases(1), STEP)
    assert ring.notes()[0].startswith("in thread logger: uncaught OSError: the log is gone"), ring.notes()


@test
def a_full_collection_is_a_phase(place):
    _, found = twice(place, HEAD + """
import gc, pickle, copy
for x, y in data():
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    gc.collect()
copy.deepcopy(net); copy.deepcopy(opt)
pickle.dumps(net)
print(pickle.loads(pickle.dumps(opt)).step.__name__)
""")
    ring = one(found)
    equal([ring.phases(step)[4] for step in ring.steps()], ["gc"] * 3)
    assert "checkpoint" not in ring.phases()  # pickling is none


def talk(place, attached, lines):
    """An interactive session on a terminal of its own; everything it showed."""
    env = base_env(place, attached, {"TERM": "dumb", "PYTHONSTARTUP": None})
    master, slave = pty.openpty()
    process = subprocess.Popen([PYTHON, "-q"], env=env, cwd=place, stdin=slave, stdout=slave,
                               stderr=slave, start_new_session=True)
    os.close(slave)
    shown = b""
    for number, line in enumerate(lines + ["\x04"]):
        while shown.count(b">>> ") <= number:
            if not select.select([master], [], [], 60)[0]:
                raise AssertionError("no prompt before %r: %r" % (line, shown))
            shown += os.read(master, 65536)
        os.write(master, line.encode())
    process.wait(60)
    os.close(master)
    return process.returncode, shown.replace(b"\r", b"").decode()


@test
def a_prompt_is_as_ever(place):
    lines = ["import torch\n", "net = torch.nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), 0.1)\n",
             "1 / 0\n", "net(torch.ones(1, 2)).sum().backward(); opt.step()\n",
             "torch.ones(1).backward()\n", "net(torch.ones(1, 2)).sum().backward(); opt.step()\n"]
    plain = talk(place, False, lines)
    attached = talk(place, True, lines)
    equal(attached, plain)
    assert "ZeroDivisionError" in plain[1] and "does not require grad" in plain[1], plain
    ring = rings(os.path.join(place, "rings"))[0]
    equal((ring.notes(), len(ring.metrics("loss"))), ([], 2))


main()
