# SPDX-License-Identifier: Apache-2.0
"""The parallel layout where it can be found: torch's DeviceMesh, Megatron's parallel state, the
environment.  `LOCKSTEP_LAYOUT` is as lockstep.layout() takes it: tp=2,pp=4.
"""
import os
import weakref

from ._groups import groups
from ._layout import FOUND, NAMES, TOLD, arrange, kind_of, where
from ._probe import complain, probe
from ._wrap import wraps

# ---- the environment ----

def parse(text):
    """tp=2,pp=4 as a dictionary; ValueError says what is wrong."""
    sizes = {}
    for part in text.replace(" ", "").split(","):
        name, _, value = part.partition("=")
        if name not in NAMES or not value.isdigit() or int(value) < 1:
            raise ValueError("%r: expected a list of %s, each with =SIZE" % (part, ", ".join(NAMES)))
        sizes[name] = int(value)
    return sizes


def from_environment():
    text = os.environ.get("LOCKSTEP_LAYOUT")
    if not text or not probe.handle:
        return
    try:
        where.set(*arrange(probe.rank, probe.world, parse(text)), trust=TOLD)
    except ValueError as error:
        complain("LOCKSTEP_LAYOUT: %s" % error)


# ---- torch's DeviceMesh ----

_later = []  # weak references to meshes that had no groups yet: from torch 2.11 on they are made after __init__


def kind_of_group(text):
    """From torch's own description of a group of a mesh: mesh_tp.  None: it says nothing."""
    if not isinstance(text, str) or not text.startswith("mesh_"):
        return None
    return kind_of(text[len("mesh_"):])


def _take_later():
    """A group is used for the first time: the meshes that it may be of have theirs by now."""
    waiting, _later[:] = _later[:], []
    for reference in waiting:
        mesh = reference()
        if mesh is not None:
            _try_mesh(mesh)


def _try_mesh(mesh):
    try:
        if not _take_mesh(mesh):
            _later.append(weakref.ref(mesh))
    except Exception as error:
        complain("mesh: %r" % (error,))


def _take_mesh(mesh):
    """False: it has no groups yet."""
    names = getattr(mesh, "mesh_dim_names", None)
    place = mesh.get_coordinate()
    shape = tuple(mesh.mesh.shape)
    total = 1
    for size in shape:
        total *= size
    if not names or place is None:
        return True
    complete = True
    size, index = {}, {}
    for dimension, name in enumerate(names):
        kind = kind_of(name)
        if kind is None:
            continue
        # Two dimensions of one kind (replicate and shard) are one, the first is the outer one.
        index[kind] = index.get(kind, 0) * shape[dimension] + place[dimension]
        size[kind] = size.get(kind, 1) * shape[dimension]
        try:
            groups.mean(mesh.get_group(dimension), kind)
        except Exception as error:  # a mesh without groups yet
            complete = False
            complain("mesh: %r" % (error,))
    if total == probe.world:  # a part of the mesh says nothing about the whole
        where.set(size, index, trust=FOUND)
    return complete


def hook_mesh(module):
    kind = module.DeviceMesh
    original = kind.__init__

    @wraps(original)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if probe.handle:
            _try_mesh(self)

    kind.__init__ = __init__
    if _take_later not in groups.ask:
        groups.ask.append(_take_later)


# ---- Megatron ----

_MEGATRON = (
    ("tp", "get_tensor_model_parallel"),
    ("pp", "get_pipeline_model_parallel"),
    ("dp", "get_data_parallel"),
    ("cp", "get_context_parallel"),
    ("ep", "get_expert_model_parallel"),
)


def _take_megatron(module):
    size, index = {}, {}
    for kind, prefix in _MEGATRON:
        ask_size = getattr(module, prefix + "_world_size", None)
        ask_rank = getattr(module, prefix + "_rank", None)
        if ask_size is None or ask_rank is None:
            continue
        try:
            size[kind], index[kind] = ask_size(), ask_rank()
            ask_group = getattr(module, prefix + "_group", None)
            if ask_group is not None and size[kind] > 1:
                groups.mean(ask_group(), kind)
        except Exception as error:  # this version has no such group
            complain("megatron: %s: %r" % (kind, error))
    where.set(size, index, trust=FOUND)


def hook_megatron(module):
    original = module.initialize_model_parallel

    @wraps(original)
    def initialize_model_parallel(*args, **kwargs):
        result = original(*args, **kwargs)
        if probe.handle:
            try:
                _take_megatron(module)
            except Exception as error:
                complain("megatron: %r" % (error,))
        return result

    module.initialize_model_parallel = initialize_model_parallel
