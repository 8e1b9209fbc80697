# SPDX-License-Identifier: Apache-2.0
"""Nested state as tensors, which the engine copies, and a description of everything else, which is stored as a blob.

The description is JSON with tags, never pickle: reading a checkpoint must not run code.  A tag is the only key of an
object: T a tensor, D a distributed one, N an array of NumPy, f a float, z a complex number, b bytes, B many of them, d a dictionary,
l, t, s, F a list, tuple, set, frozenset, c another container, y a dtype, v a device, S a torch.Size.
"""
import base64
import collections
import hashlib
import math

from . import engine, shards
from .engine import DIMS, DTYPES, CheckpointError

NAME_BYTES = 900  # of the 1,000 that the engine takes
DEPTH = 200
BYTES_INSIDE = 1 << 16  # more are stored like a tensor: the description has little room
_FACTORIES = {"int": int, "float": float, "list": list, "dict": dict, "set": set, "str": str}


def _shown(text):
    """As part of a name: the engine takes no control characters, and no more than 1,000 bytes."""
    data = "".join(letter if letter.isprintable() else "?" for letter in text).encode("utf-8", "replace")
    if len(data) <= NAME_BYTES:
        return data.decode()
    return data[:NAME_BYTES].decode("utf-8", "ignore") + "~" + hashlib.sha256(data).hexdigest()[:16]


def _dtype(tensor):
    return str(tensor.dtype).replace("torch.", "")


class Entry:
    """A tensor of the state: `given` is the program's own, `place` where it lies in a distributed tensor."""

    def __init__(self, given, place=None, name=""):
        self.given, self.place, self.name = given, place, name

    def version(self):
        try:
            return self.given._version
        except RuntimeError:  # one of inference_mode() has none
            return None

    def stored(self, torch):
        """Contiguous, in main memory or on a GPU, of a type and a number of dimensions that the engine has; the program's
        own memory where that is possible."""
        tensor = self.given
        for resolve in "resolve_conj", "resolve_neg":  # views that say only that their memory is to be read so
            tensor = getattr(tensor, resolve, lambda tensor=tensor: tensor)()
        tensor = (tensor.cpu() if engine.gpu_of(tensor) is None else tensor).contiguous()
        if tensor.dim() > DIMS:
            tensor = tensor.reshape(-1)
        if _dtype(tensor) not in DTYPES:
            tensor = tensor.reshape(-1).view(torch.uint8)
        return tensor


class Describe:
    """Splits nested state; `entries` has its tensors by name."""

    def __init__(self, torch):
        self.torch, self.entries, self._seen, self._depth = torch, {}, {}, 0

    def _name(self, path):
        name, number = _shown(path), 1
        while name in self.entries:  # keys 1 and "1", or "a.b" beside a dictionary a
            number += 1
            name = "%s~%d" % (_shown(path), number)
        return name

    def _local(self, tensor, path):
        """The checked tensor of this rank."""
        if tensor.layout != self.torch.strided:
            raise CheckpointError("%s: a tensor of layout %s cannot be saved; give its indices and values" % (
                path, tensor.layout))
        if tensor.device.type == "meta":
            raise CheckpointError("%s: a tensor on device meta has no contents" % path)
        if tensor.is_quantized:
            raise CheckpointError("%s: a quantized tensor cannot be saved; give its int_repr() and scales" % path)
        return tensor

    def tensor(self, value, path):
        kind = shards.kind(value)
        if kind == "sharded":
            raise CheckpointError("%s: a ShardedTensor cannot be saved; use state dicts of DTensor (FSDP with "
                                  "device_mesh=), or lockstep.checkpoint.dcp" % path)
        value, place = value.detach(), None
        if kind == "dtensor":
            place = shards.place(value, path)
            value = value.to_local()
            value = value.wait() if hasattr(value, "wait") else value
        value = self._local(value, path)
        key = (value.data_ptr() if value.numel() else 0, tuple(value.shape), value.stride(), value.dtype,
               value.is_conj(), value.is_neg(), place and str(place.text()))
        if not value.numel() or key not in self._seen:  # tied tensors are stored once
            self._seen[key] = self._name(path)
            self.entries[self._seen[key]] = Entry(value, place, self._seen[key])
        answer = [self._seen[key], _dtype(value), list(value.shape)]
        return {"D": answer + [place.text()]} if place else {"T": answer}

    def array(self, value, path):
        """Of NumPy."""
        if value.dtype.hasobject:
            raise CheckpointError("%s: an array of objects cannot be saved" % path)
        data = self.torch.frombuffer(bytearray(value.tobytes()), dtype=self.torch.uint8) if value.nbytes else \
            self.torch.empty(0, dtype=self.torch.uint8)
        return {"N": [self(data, path), value.dtype.str, list(value.shape)]}

    def _container(self, value, path):
        items = lambda: [[self(key, path + ".key"), self(item, "%s.%s" % (path, key))]  # noqa: E731
                         for key, item in value.items()]
        if type(value) is collections.defaultdict:
            factory = getattr(value.default_factory, "__name__", None)
            if _FACTORIES.get(factory) is not value.default_factory and value.default_factory is not None:
                raise CheckpointError("%s: a defaultdict of %s cannot be saved" % (path, factory))
            return {"c": ["defaultdict", factory, items()]}
        if isinstance(value, dict):
            name = type(value).__name__ if type(value) in (collections.OrderedDict, collections.Counter) else None
            return {"c": [name, None, items()]} if name else {"d": items()}
        listed = [self(item, "%s.%d" % (path, i)) for i, item in enumerate(value)]
        if isinstance(value, collections.deque):
            return {"c": ["deque", value.maxlen, listed]}
        if isinstance(value, self.torch.Size):
            return {"S": listed}
        return {{list: "l", tuple: "t", set: "s", frozenset: "F"}[
            next(kind for kind in (list, tuple, set, frozenset) if isinstance(value, kind))]: listed}

    def _plain(self, value, path):
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return value if value is None or isinstance(value, bool) else str(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return {"f": float(value).hex()}
        if isinstance(value, complex):
            return {"z": [float(value.real).hex(), float(value.imag).hex()]}
        if isinstance(value, (bytes, bytearray)):
            if len(value) > BYTES_INSIDE:
                return {"B": [self(self.torch.frombuffer(bytearray(value), dtype=self.torch.uint8), path)]}
            return {"b": base64.b64encode(bytes(value)).decode()}
        if isinstance(value, self.torch.dtype):
            return {"y": str(value).replace("torch.", "")}
        if isinstance(value, self.torch.device):
            return {"v": str(value)}
        if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a number of NumPy
            return self(value.item(), path)
        if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            return self.array(value, path)
        raise CheckpointError("%s: %s cannot be saved; give its state_dict(), or bytes" % (path, type(value).__name__))

    def __call__(self, value, path):
        if isinstance(value, self.torch.Tensor) or shards.kind(value):
            return self.tensor(value, path)
        if not isinstance(value, (dict, list, tuple, set, frozenset, collections.deque)):
            return self._plain(value, path)
        self._depth += 1
        if self._depth > DEPTH:
            raise CheckpointError("%s...: nested deeper than %d, or in itself" % (path[:80], DEPTH))
        answer = self._container(value, path)
        self._depth -= 1
        return answer


def _read_container(inner, read):
    name, detail, listed = inner
    if name == "deque":
        return collections.deque(map(read, listed), detail)
    pairs = [(read(key), read(item)) for key, item in listed]
    if name == "defaultdict":
        return collections.defaultdict(_FACTORIES.get(detail), pairs)
    return {"OrderedDict": collections.OrderedDict, "Counter": lambda pairs: collections.Counter(dict(pairs))}[name](pairs)


def _read_array(inner, read):
    import numpy
    data, dtype, shape = inner
    return numpy.frombuffer(bytearray(read(data).numpy().tobytes()), dtype=numpy.dtype(dtype)).reshape(shape)


def tensors_of(value):
    """(name, dtype, shape, place) of the tensors that a description names."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            (tag, inner), = value.items()
            if tag in ("T", "D"):
                yield (*inner, None)[:4]
            else:
                waiting.append(inner)


def stored_form(torch, dtype, shape):
    """The dtype and the shape with which Entry.stored() gives a tensor to the engine."""
    if not hasattr(torch, dtype):
        raise CheckpointError("this torch has no dtype %s" % dtype)
    if dtype in DTYPES:
        return getattr(torch, dtype), list(shape) if len(shape) <= DIMS else [math.prod(shape)]
    return torch.uint8, [math.prod(shape) * torch.empty(0, dtype=getattr(torch, dtype)).element_size()]


def true_form(torch, tensor, dtype, shape):
    """Back from there."""
    return tensor.view(getattr(torch, dtype)).reshape(shape) if tensor.dtype != getattr(torch, dtype) else \
        tensor.reshape(shape)


def read(value, tensor, torch):
    """The state of a description; tensor(name, dtype, shape, place) gives its tensors."""
    def again(inner):
        return read(inner, tensor, torch)

    if not isinstance(value, dict):
        return value
    (tag, inner), = value.items()
    table = {
        "T": lambda: tensor(inner[0], inner[1], inner[2], None),
        "D": lambda: tensor(*inner),
        "N": lambda: _read_array(inner, again),
        "f": lambda: float.fromhex(inner),
        "z": lambda: complex(*map(float.fromhex, inner)),
        "b": lambda: base64.b64decode(inner),
        "B": lambda: again(inner[0]).numpy().tobytes(),
        "d": lambda: {again(key): again(item) for key, item in inner},
        "l": lambda: [again(item) for item in inner],
        "t": lambda: tuple(again(item) for item in inner),
        "s": lambda: {again(item) for item in inner},
        "F": lambda: frozenset(again(item) for item in inner),
        "c": lambda: _read_container(inner, again),
        "y": lambda: getattr(torch, inner),
        "v": lambda: torch.device(inner),
        "S": lambda: torch.Size(inner),
    }
    if tag not in table:
        raise CheckpointError("the description has an unknown tag %r: it is of a later version" % tag)
    return table[tag]()
