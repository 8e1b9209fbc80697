# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of tensors on a GPU are right: every value, at the moment that was asked for, also after kill -9.

Each check runs in this process or in one of its own, and compares bit by bit.  Prints one JSON object; exits 1 when a check
fails, 77 without a GPU.  Needs torch and a built liblockstep-ckpt.so with its writer:

    python3 test/gpu/ckpt_check.py [--dir DIR] [--device cuda] [--only NAME,...]

`--device cpu` runs what needs no GPU.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BUILD") or (SOURCE if os.path.exists(os.path.join(SOURCE, "liblockstep-ckpt.so.0")) else
                                    os.path.join(SOURCE, "build"))
sys.path.insert(0, os.path.join(BUILD, "bindings", "python"))
CHECKS, SLOW = {}, set()


def check(function):
    CHECKS[function.__name__.replace("_", "-")] = function
    return function


def slow(function):
    SLOW.add(function.__name__.replace("_", "-"))
    return check(function)


def bits(torch, tensor):
    """As bytes: not-a-number equals itself."""
    return tensor.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8).cpu()


def same(torch, one, other):
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(bits(torch, one), bits(torch, other))


def demand(whether, *words):
    if not whether:
        raise AssertionError(" ".join(map(str, words)))


def small(torch, device, width=512, depth=6):
    torch.manual_seed(7)
    layers = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width), torch.nn.Dropout(0.1), torch.nn.GELU()]
    return torch.nn.Sequential(*layers).to(device)


def train(torch, model, optimizer, device, width=512):
    loss = model(torch.randn(32, width, device=device)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def values_of(model, optimizer):
    """Clones of all tensors, on the device, after what was launched so far."""
    state = {"model." + name: value.detach().clone() for name, value in model.state_dict().items()}
    for number, entry in optimizer.state_dict()["state"].items():
        for name, value in entry.items():
            if hasattr(value, "clone"):
                state["optimizer.%s.%s" % (number, name)] = value.detach().clone()
    return state


def expect(torch, wanted, model, optimizer):
    found = values_of(model, optimizer)
    demand(found.keys() == wanted.keys(), "other tensors:", set(found) ^ set(wanted))
    for name, value in wanted.items():
        demand(same(torch, value, found[name].to(value.device)), name, "differs")


def loaded(torch, lockstep, where, device, make):
    model = small(torch, device)
    optimizer = make(model)
    checkpoints = lockstep.Checkpointer(where)
    found = checkpoints.load_latest(model=model, optimizer=optimizer)
    demand(found is not None, "nothing was loaded:", checkpoints.last_error)
    checkpoints.close()
    return found, model, optimizer


# ---- what is saved ----

@check
def every_kind_of_tensor(torch, lockstep, where, device):
    torch.manual_seed(3)
    made = {"float32": torch.randn(1000, 1000, device=device), "scalar": torch.tensor(3.5, device=device),
            "empty": torch.empty(0, 7, device=device), "on the host": torch.randn(77, 3),
            "transposed": torch.randn(300, 500, device=device).t(), "strided": torch.randn(64, 64, device=device)[::3, 1::2],
            "expanded": torch.randn(1, 64, device=device).expand(32, 64), "nan": torch.full((5,), float("nan"), device=device),
            "channels last": torch.randn(4, 8, 16, 16, device=device).to(memory_format=torch.channels_last),
            "odd bytes": torch.randint(0, 255, (4097,), dtype=torch.uint8, device=device),
            "ten dimensions": torch.randn(*[2] * 10, device=device),
            "conjugate": torch.randn(16, dtype=torch.complex64, device=device).conj()}
    for name in ("float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "bool", "complex64", "complex128",
                 "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"):
        if hasattr(torch, name):
            made["dtype " + name] = (torch.randn(513, device=device) * 9).to(getattr(torch, name))
    made["tied"] = [made["float32"], made["float32"]]
    checkpoints = lockstep.Checkpointer(where)
    demand(checkpoints.save(1, extra=made), checkpoints.last_error)
    demand(checkpoints.wait("verified", 60), checkpoints.last_error)
    found = checkpoints.load_latest().extra
    checkpoints.close()
    for name, value in made.items():
        for one, other in zip(*(item if isinstance(item, list) else [item] for item in (value, found[name]))):
            demand(same(torch, one, other), name, "differs")
    return {"tensors": len(made)}


@check
def the_copy_follows_what_was_launched_and_precedes_what_comes(torch, lockstep, where, device):
    """Kernels are in flight before the save, and overwrite everything right after it; on the default stream and on another."""
    size = (64 << 20) if device == "cuda" else 1 << 20
    checkpoints = lockstep.Checkpointer(where, keep=1)
    streams = [None, torch.cuda.Stream()] if device == "cuda" else [None]
    stalls = []
    for turn in range(6):
        stream = streams[turn % len(streams)]
        with torch.cuda.stream(stream):
            tensors = {str(i): torch.randn(size // 4, device=device) for i in range(8)}
            for _ in range(20):
                for value in tensors.values():
                    value.mul_(1.01).add_(0.5)
            wanted = {name: value.clone() for name, value in tensors.items()}
            begin = time.monotonic()
            demand(checkpoints.save(turn, model=tensors), checkpoints.last_error)
            stalls.append(time.monotonic() - begin)
            for value in tensors.values():
                value.zero_()
            demand(checkpoints.wait("written", 60), checkpoints.last_error)
            found = checkpoints.load_latest()
        demand(found.step == turn, "step", found.step, "instead of", turn)
        for name, value in wanted.items():
            demand(same(torch, value, found.state["model"][name].to(device)), "turn", turn, "tensor", name, "differs")
    status = checkpoints.status()
    checkpoints.close()
    return {"stalls_s": [round(stall, 4) for stall in stalls], "bytes": 8 * size, "device": status["device"], "io": status["io"]}


@check
def forward_and_backward_run_before_the_fence(torch, lockstep, where, device):
    model = small(torch, device)
    make = lambda given: torch.optim.AdamW(given.parameters(), lr=1e-2)  # noqa: E731
    optimizer = make(model)
    checkpoints = lockstep.Checkpointer(where, keep=1)
    for step in range(4):
        train(torch, model, optimizer, device)
        wanted = values_of(model, optimizer)
        demand(checkpoints.begin(step, model=model, optimizer=optimizer), checkpoints.last_error)
        model(torch.randn(32, 512, device=device)).pow(2).mean().backward()  # changes the statistics of BatchNorm
        demand(checkpoints.fence(), checkpoints.last_error)
        optimizer.step()
        optimizer.zero_grad()
        demand(checkpoints.wait("written", 60), checkpoints.last_error)
        found, other, its = loaded(torch, lockstep, where, device, make)
        demand(found.step == step, "step", found.step)
        expect(torch, wanted, other, its)
    checkpoints.close()


def optimizers(torch, device):
    adam = torch.optim.AdamW
    made = {"loop": lambda model: adam(model.parameters(), lr=1e-2, foreach=False),
            "foreach": lambda model: adam(model.parameters(), lr=1e-2, foreach=True),
            "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)}
    if device == "cuda":
        made["fused"] = lambda model: adam(model.parameters(), lr=1e-2, fused=True)
    return made


@check
def a_change_before_the_fence_is_refused(torch, lockstep, where, device):
    """Or, where torch does not count changes, comes after the copy."""
    refused = {}
    for name, make in optimizers(torch, device).items():
        model = small(torch, device)
        optimizer = make(model)
        train(torch, model, optimizer, device)
        checkpoints = lockstep.Checkpointer(os.path.join(where, name))
        demand(checkpoints.save(1, model=model, optimizer=optimizer), checkpoints.last_error)
        wanted = values_of(model, optimizer)
        demand(checkpoints.begin(2, model=model, optimizer=optimizer), checkpoints.last_error)
        train(torch, model, optimizer, device)
        if checkpoints.fence():
            demand(name == "fused", name, "changed tensors before the fence, and the save was not refused")
            demand(checkpoints.wait("verified", 60), checkpoints.last_error)
            checkpoints.close()
            expect(torch, wanted, *loaded(torch, lockstep, os.path.join(where, name), device, make)[1:])
            refused[name] = "copied before the change"
            continue
        refused[name] = checkpoints.last_error
        demand("changed before the fence" in refused[name], refused[name])
        demand(checkpoints.wait("verified", 60), checkpoints.last_error)
        demand(checkpoints.steps() == [1], name, "points", checkpoints.steps())
        checkpoints.close()
    return refused


def compiled(torch, lockstep, where, device, capturable):
    model = small(torch, device)
    make = lambda given: torch.optim.AdamW(  # noqa: E731
        given.parameters(), lr=torch.tensor(1e-2, device=device) if capturable else 1e-2, capturable=capturable)
    optimizer = make(model)
    train(torch, model, optimizer, device)
    checkpoints = lockstep.Checkpointer(where)
    update = torch.compile(optimizer.step)

    def once():
        model(torch.randn(32, 512, device=device)).pow(2).mean().backward()
        update()
        optimizer.zero_grad()

    once()
    wanted = values_of(model, optimizer)
    demand(checkpoints.begin(1, model=model, optimizer=optimizer), checkpoints.last_error)
    once()
    fenced = checkpoints.fence()
    answer = {"refused": not fenced, "why": checkpoints.last_error}
    if fenced:  # then the values must be those at begin()
        demand(checkpoints.wait("written", 60), checkpoints.last_error)
        expect(torch, wanted, *loaded(torch, lockstep, where, device, make)[1:])
    wanted = values_of(model, optimizer)
    demand(checkpoints.save(2, model=model, optimizer=optimizer), checkpoints.last_error)
    once()
    demand(checkpoints.wait("written", 60), checkpoints.last_error)
    expect(torch, wanted, *loaded(torch, lockstep, where, device, make)[1:])
    checkpoints.close()
    return answer


@slow
def a_compiled_optimizer_step(torch, lockstep, where, device):
    return {str(capturable): compiled(torch, lockstep, os.path.join(where, str(capturable)), device, capturable)
            for capturable in (False, True)}


@check
def a_captured_graph(torch, lockstep, where, device):
    """Replaying it changes tensors, and torch does not count that."""
    if device != "cuda":
        return "needs a GPU"
    model = small(torch, device)
    make = lambda given: torch.optim.AdamW(given.parameters(), lr=1e-2, capturable=True)  # noqa: E731
    optimizer = make(model)
    batch = torch.randn(32, 512, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(batch).pow(2).mean().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        model(batch).pow(2).mean().backward()
        optimizer.step()
    checkpoints = lockstep.Checkpointer(where)
    for step in range(3):
        graph.replay()
        wanted = values_of(model, optimizer)
        demand(checkpoints.begin(step, model=model, optimizer=optimizer), checkpoints.last_error)
        graph.replay()
        demand(checkpoints.fence(), checkpoints.last_error)
        demand(checkpoints.wait("written", 60), checkpoints.last_error)
        expect(torch, wanted, *loaded(torch, lockstep, where, device, make)[1:])
    checkpoints.close()
    del graph


# ---- in processes of their own ----

RESUME = r"""
import os, sys
import torch, lockstep
from ckpt_check import small, train
where, name, first, last, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
torch.use_deterministic_algorithms(True)
torch.manual_seed(11)
model = small(torch, device)
options = {"foreach": {"foreach": True}, "fused": {"fused": True}, "capturable": {"capturable": True}}[name]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
checkpoints = lockstep.Checkpointer(where)
found = checkpoints.load_latest(model=model, optimizer=optimizer)
if first:
    assert found.step == first - 1, found and found.step
    scheduler.load_state_dict(found.extra["scheduler"])
losses = []
for step in range(first, last):
    losses.append(float(train(torch, model, optimizer, device)).hex())
    scheduler.step()
    if step == 9 and last == 10:
        assert checkpoints.save(step, model=model, optimizer=optimizer, extra={"scheduler": scheduler.state_dict()})
        assert checkpoints.wait("verified", 60), checkpoints.last_error
print(" ".join(losses), flush=True)
os._exit(0)
"""


def child(text, *arguments):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([HERE, os.path.join(BUILD, "bindings", "python")]),
                       CUBLAS_WORKSPACE_CONFIG=":4096:8")
    return subprocess.Popen([sys.executable, "-c", text, *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def answer_of(process):
    out, err = process.communicate(timeout=120)
    demand(process.returncode == 0, "a program ended with", process.returncode, err[-1500:])
    return out.split()


@check
def losses_after_a_restart_equal_those_of_one_run(torch, lockstep, where, device):
    names = ["foreach", "fused", "capturable"] if device == "cuda" else ["foreach"]
    whole = {name: child(RESUME, os.path.join(where, name + "-whole"), name, 0, 20, device) for name in names}
    begun = {name: child(RESUME, os.path.join(where, name), name, 0, 10, device) for name in names}
    losses = {name: answer_of(begun[name]) for name in names}
    rest = {name: child(RESUME, os.path.join(where, name), name, 10, 20, device) for name in names}
    for name in names:
        one, other = answer_of(whole[name]), losses[name] + answer_of(rest[name])
        demand(one == other, name, "differs at step", next((i for i in range(20) if one[i:i + 1] != other[i:i + 1]), "?"))
    return names


KILL = r"""
import os, signal, sys
import torch, lockstep
where, device, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.manual_seed(5)
state = {str(i): torch.randn(size // 4, device=device) for i in range(8)}
checkpoints = lockstep.Checkpointer(where)
assert checkpoints.save(1, model=state), checkpoints.last_error
for value in state.values():
    value.add_(1)
assert checkpoints.wait("written", 60), checkpoints.last_error
assert checkpoints.save(2, model=state), checkpoints.last_error
os.kill(os.getpid(), signal.SIGKILL)
"""


@check
def a_killed_trainer_does_not_lose_the_save(torch, lockstep, where, device):
    size = (64 << 20) if device == "cuda" else 4 << 20
    process = child(KILL, where, device, size)
    _, err = process.communicate(timeout=120)
    demand(process.returncode == -signal.SIGKILL, "the program ended with", process.returncode, err[-1500:])
    begin = time.monotonic()
    program = os.path.join(BUILD, "lockstep")
    points = []
    while time.monotonic() - begin < 40 and [point["step"] for point in points if point["state"] == "verified"] != [2, 1]:
        time.sleep(0.2)
        done = subprocess.run([program, "ckpt", "verify", where, "--json"], capture_output=True, text=True)
        points = json.loads(done.stdout)["points"] if done.stdout else []
    taken = time.monotonic() - begin
    checkpoints = lockstep.Checkpointer(where)
    found = checkpoints.load_latest()
    demand(found.step == 2, "step", found.step, "points", points)
    torch.manual_seed(5)
    for name in map(str, range(8)):
        value = torch.randn(size // 4, device=device) + 1
        demand(same(torch, value, found.state["model"][name].to(device)), name, "differs")
    checkpoints.close()
    return {"bytes": 8 * size, "verified_after_s": round(taken, 2)}


RANK = r"""
import os, sys
import torch, lockstep
where, device, rank, phase = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
torch.manual_seed(9)
state = {"a": torch.randn(1001, 513, device=device), "b": torch.randn(3, device=device), "c": torch.randn((), device=device)}
checkpoints = lockstep.Checkpointer(where, rank=rank, world=2, replicated=True)
assert checkpoints.save(4, model=state), checkpoints.last_error
assert checkpoints.wait("verified", 60), checkpoints.last_error
"""


@check
def two_ranks_save_slices_that_one_rank_loads(torch, lockstep, where, device):
    os.environ["LOCKSTEP_RUN"] = "check"
    try:
        ranks = [child(RANK, where, device, rank, "save") for rank in range(2)]
        for rank in ranks:
            answer_of(rank)
    finally:
        del os.environ["LOCKSTEP_RUN"]
    checkpoints = lockstep.Checkpointer(where)
    found = checkpoints.load_latest()
    checkpoints.close()
    demand(found is not None and found.step == 4, checkpoints.last_error)
    torch.manual_seed(9)
    for name, shape in ("a", (1001, 513)), ("b", (3,)), ("c", ()):
        demand(same(torch, torch.randn(shape, device=device), found.state["model"][name].to(device)), name, "differs")
    sizes = [os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(where) for name in names
             if name.endswith(".safetensors")]
    return {"file_bytes": sizes}


# ---- files that torch's own tools read and write ----

@check
def dcp_saves_through_us_and_reads_our_files(torch, lockstep, where, device):
    try:
        import torch.distributed.checkpoint as dcp
        from lockstep.checkpoint import dcp as ours
    except ImportError as error:
        return "this torch cannot: %s" % error
    torch.manual_seed(21)
    state = {"w": torch.randn(129, 65, device=device), "h": torch.randn(64, device=device).bfloat16(),
             "n": {"step": torch.tensor(4.0)}, "text": "any"}
    answer = {}
    writer = ours.StorageWriter(os.path.join(where, "dcp"))
    dcp.save(state, storage_writer=writer, checkpoint_id="7")
    again = {"w": torch.zeros(129, 65, device=device), "h": torch.zeros(64, device=device).bfloat16(),
             "n": {"step": torch.tensor(0.0)}, "text": ""}
    dcp.load(again, storage_reader=ours.StorageReader(os.path.join(where, "dcp")))
    for one, other in (state["w"], again["w"]), (state["h"], again["h"]), (state["n"]["step"], again["n"]["step"]):
        demand(same(torch, one, other), "a tensor of dcp.save differs")
    demand(again["text"] == "any", again["text"])
    answer["own"] = "equal"
    checkpoints = lockstep.Checkpointer(os.path.join(where, "plain"))
    demand(checkpoints.save(3, model={"w": state["w"], "h": state["h"]}), checkpoints.last_error)
    demand(checkpoints.wait("verified", 60), checkpoints.last_error)
    checkpoints.close()
    try:
        reader = dcp.HuggingFaceStorageReader(os.path.join(where, "plain", "step-3"))
    except (AttributeError, ImportError) as error:
        answer["hugging face reader"] = str(error)
        return answer
    again = {"model.w": torch.zeros(129, 65, device=device), "model.h": torch.zeros(64, device=device).bfloat16()}
    dcp.load(again, storage_reader=reader)
    demand(same(torch, again["model.w"], state["w"]) and same(torch, again["model.h"], state["h"]), "dcp.load differs")
    answer["hugging face reader"] = "equal"
    return answer


# ---- ----

def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", default="", help="names of checks, with commas")
    parser.add_argument("--slow", action="store_true", help="also those that compile")
    options = parser.parse_args()
    import torch
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: no GPU", file=sys.stderr)
        return 77
    import lockstep
    names = options.only.split(",") if options.only else [name for name in CHECKS if options.slow or name not in SLOW]
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        parser.error("no check is named %s; there are %s" % (unknown[0], ", ".join(CHECKS)))
    result, failed = {"torch": torch.__version__, "device": options.device, "checks": {}}, 0
    if torch.distributed.is_available() and torch.__version__ >= "2":
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    for name in names:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="lockstep-check-", dir=options.dir) as where:
            try:
                answer, state = CHECKS[name](torch, lockstep, where, options.device), "passed"
            except Exception:
                answer, state = traceback.format_exc()[-1500:], "failed"
                failed += 1
        result["checks"][name] = {"state": state, "seconds": round(time.monotonic() - begin, 2), "found": answer}
        print("%s: %s" % (name, json.dumps(result["checks"][name])), file=sys.stderr, flush=True)
    print(json.dumps(result, indent=2))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
