# SPDX-License-Identifier: Apache-2.0
"""Whatever state a training has comes back with the same types and bits; what changes during a save is refused by name."""
import os

from tap import BUILD, Skip, equal, main, need_torch, python, test

ENV = {"LOCKSTEP_CKPT_LIBRARY": os.path.join(BUILD, "liblockstep-ckpt.so.0")}
BEGIN = """
import collections, os, sys
import torch
import lockstep
directory = sys.argv[1]
def there_and_back(state, **settings):
    checkpoints = lockstep.Checkpointer(directory, **settings)
    assert checkpoints.save(1, extra=state), checkpoints.last_error
    assert checkpoints.wait(timeout=60), checkpoints.last_error
    checkpoints.close()
    again = lockstep.Checkpointer(directory)
    found = again.load_latest()
    assert found, again.last_error
    again.close()
    return found.extra
def same(a, b):
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
        raw = lambda t: bytes(t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).tolist())
        assert raw(a) == raw(b), (a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b), (list(a), list(b))
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple, collections.deque)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        assert a == b or a != a and b != b, (a, b)
"""


def run(script, place):
    done = python(BEGIN + script, ENV, [place + "/ckpt"])
    equal(done.returncode, 0, done.stderr[-2000:])
    return done.stdout


@test
def every_dtype_comes_back(place):
    run("""
names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex32",
         "complex64", "complex128", "uint16", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz",
         "float8_e4m3fnuz", "float8_e8m0fnu"]
state = {}
for name in names:
    if not hasattr(torch, name):
        continue
    size = torch.empty(0, dtype=getattr(torch, name)).element_size()
    bits = torch.randint(0, 2 if name == "bool" else 256, (6 * size,), dtype=torch.uint8)
    state[name] = bits.view(getattr(torch, name)).reshape(2, 3)
assert len(state) >= 13, list(state)
same(state, there_and_back(state))
""", place)


@test
def tensors_of_every_form_come_back(place):
    run("""
base = torch.randn(8, 6)
complex_ = torch.randn(4, 4, dtype=torch.complex64)
state = {
    "scalar": torch.tensor(3.5), "empty": torch.empty(0), "empty rows": torch.empty(0, 7), "no columns": torch.empty(5, 0),
    "transposed": base.t(), "every other": base[::2, 1::2], "expanded": torch.randn(3, 1).expand(3, 5), "offset": base[3:],
    "conjugate": complex_.conj(), "negative": complex_.conj().imag, "ten": torch.randn(1, 2, 1, 2, 1, 2, 1, 2, 1, 2),
    "parameter": torch.nn.Parameter(torch.randn(3)).detach(), "channels last": torch.randn(2, 3, 4, 5).to(
        memory_format=torch.channels_last)}
back = there_and_back(state)
same({name: value.clone() if name != "conjugate" else value.resolve_conj() for name, value in state.items()}, back)
""", place)


@test
def containers_of_every_type_come_back(place):
    run("""
state = {1: "one", "1": torch.ones(2), 2: torch.zeros(2), "a.b": torch.full((2,), 3.0), "a": {"b": torch.full((2,), 4.0)},
         (1, 2): [None, True, -7, 1 << 80, 1.5, float("inf"), 2 - 3j, b"\\x00\\xff", "\\n\\u20ac"],
         "ordered": collections.OrderedDict(b=1, a=2), "counter": collections.Counter([3, 3, 5]),
         "default": collections.defaultdict(list, x=[1]), "deque": collections.deque([1, 2, 3], 3),
         "set": {1, 2}, "frozen": frozenset([(1, "x")]), "dtype": torch.bfloat16, "device": torch.device("cpu"),
         "size": torch.Size([2, 3]), "tuple": ({"deep": [(torch.arange(3),)]},), "x" * 2000: torch.ones(1),
         "x" * 2000 + "y": torch.zeros(1), "line\\nfeed": torch.ones(1), float("nan"): 1}
back = there_and_back(state)
nan = [key for key in state if key != key][0]
del state[nan]
assert [key for key in back if key != key] and back.pop([key for key in back if key != key][0]) == 1
same(state, back)
assert back["default"]["fresh"] == [] and back["deque"].maxlen == 3
try:
    import numpy
except ImportError:
    pass
else:
    arrays = {"f": numpy.arange(6, dtype=">f4").reshape(2, 3), "u": numpy.ones(3, "u2"), "e": numpy.empty((0, 2)),
              "n": numpy.float32(2.5), "s": numpy.array(["ab", "c"])}
    back = there_and_back(arrays)
    for name in "f", "u", "e", "s":
        assert back[name].dtype == arrays[name].dtype and back[name].shape == arrays[name].shape, name
        assert (back[name] == arrays[name]).all() and back[name].flags.writeable, name
    assert back["n"] == 2.5
circle = []
circle.append(circle)
for wrong, why in (({"a": circle}, "nested deeper"), ({"m": torch.empty(2, device="meta")}, "extra.m: a tensor on device meta"),
                   ({"s": torch.eye(3).to_sparse()}, "extra.s: a tensor of layout"), ({"l": [object()]}, "extra.l.0: object"),
                   ({"f": collections.defaultdict(lambda: 1)}, "extra.f: a defaultdict of <lambda>")):
    try:
        there_and_back(wrong)
        raise SystemExit("%s was saved" % why)
    except lockstep.CheckpointError as error:
        assert why in str(error), (why, str(error))
""", place)


@test
def bytes_of_any_number_come_back(place):
    run("""
large = bytes(range(256)) * (40 << 12)
back = there_and_back({"bytes": large, "array": bytearray(large), "small": large[:256]})
assert back == {"bytes": large, "array": large, "small": large[:256]}, "large bytes differ"
""", place)


@test
def tied_tensors_are_stored_once(place):
    out = run("""
one = torch.randn(64, 64)
back = there_and_back({"a": one, "b": one, "c": one.t(), "d": one.clone()})
assert torch.equal(back["a"], one) and back["a"].data_ptr() == back["b"].data_ptr() and torch.equal(back["c"], one.t())
assert back["d"].data_ptr() != back["a"].data_ptr()
import json
with open(directory + "/step-1/rank-00000.safetensors", "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
print(sorted(name for name in header if name.startswith("extra.")))
""", place)
    equal(out, "['extra.a', 'extra.c', 'extra.d']\n")


@test
def pointers_and_shapes_are_looked_up_at_every_save(place):
    run("""
model = torch.nn.Linear(4, 4)
checkpoints = lockstep.Checkpointer(directory)
def round(step):
    assert checkpoints.save(step, model=model), checkpoints.last_error
    assert checkpoints.wait(timeout=60), checkpoints.last_error
    found = checkpoints.load_latest()
    assert found.step == step
    same({name: value.detach() for name, value in found.state["model"].items()}, dict(model.state_dict()))
round(1)
model.weight.data = torch.randn(4, 4)  # moved: the old memory still has the old values
round(2)
with torch.no_grad():
    model.weight += 1
round(3)
model.weight = torch.nn.Parameter(torch.randn(7, 4))  # another shape
model.extra = torch.nn.Parameter(torch.randn(2))
round(4)
del model.extra
round(5)
""", place)


@test
def a_tensor_that_changes_before_the_fence_is_named(place):
    out = run("""
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.Adam(model.parameters())
def train():
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
train()
checkpoints = lockstep.Checkpointer(directory)
assert checkpoints.begin(1, model=model, optimizer=optimizer), checkpoints.last_error
train()
assert not checkpoints.fence()
print(checkpoints.last_error)
assert checkpoints.begin(2, model=model, optimizer=optimizer)
optimizer.state[model[0].weight]["exp_avg"].mul_(2)
assert not checkpoints.fence()
print(checkpoints.last_error)
assert not checkpoints.fence()
print(checkpoints.last_error)
assert checkpoints.save(3, model=model, optimizer=optimizer) and checkpoints.wait(timeout=60)
print(checkpoints.steps(), checkpoints.status()["cancelled"])
""", place)
    equal(out.splitlines(), ["tensor model.0.weight changed before the fence",
                             "tensor optimizer.state.0.exp_avg changed before the fence", "no save has begun", "[3] 2"])


@test
def buffers_are_copied_before_begin_returns(place):
    run("""
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(8, 4)).sum().backward()
optimizer.step()
before = {name: value.clone() for name, value in model.state_dict().items()}
seed = torch.get_rng_state()
checkpoints = lockstep.Checkpointer(directory)
counter = torch.tensor(5)
assert checkpoints.begin(1, model=model, optimizer=optimizer, extra=counter)
model(torch.randn(8, 4))  # moves the statistics and the generator
counter += 1
optimizer.state[model[0].weight]["step"] += 1
assert not torch.equal(before["1.running_mean"], model[1].running_mean)
assert checkpoints.fence(), checkpoints.last_error
assert checkpoints.wait(timeout=60)
found = checkpoints.load_latest(model=model, optimizer=optimizer)
same(before, dict(model.state_dict()))
assert int(found.extra) == 5 and torch.equal(torch.get_rng_state(), seed)
assert int(optimizer.state[model[0].weight]["step"]) == 1
""", place)


@test
def tensors_of_inference_mode_are_saved(place):
    run("""
with torch.inference_mode():
    made = torch.ones(3) * 2
same(made.tolist(), there_and_back({"t": made})["t"].tolist())
""", place)


@test
def a_state_of_several_models_is_loaded(place):
    run("""
models = {"generator": torch.nn.Linear(3, 3), "critics": [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]}
states = lambda: {"generator": models["generator"].state_dict(), "critics": [m.state_dict() for m in models["critics"]]}
checkpoints = lockstep.Checkpointer(directory)
assert checkpoints.save(7, model=states()) and checkpoints.wait(timeout=60)
found = checkpoints.load_latest(model=states())
same(dict(found.state["model"]["critics"][1]), dict(models["critics"][1].state_dict()))
""", place)


need_torch()
main()
