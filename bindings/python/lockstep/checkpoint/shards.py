# SPDX-License-Identifier: Apache-2.0
"""Parts of distributed tensors: DTensor, as FSDP2, tensor parallelism and HSDP have it.

A rank saves its local part with its place in the global tensor; of parts that several ranks have alike, each saves a
slice.  Loading makes DTensors on the meshes of the model that is given, which may have another size along dimension 0.
"""
import sys

from .engine import CheckpointError


def kind(value):
    """"dtensor", "sharded" (the older ShardedTensor), or None: an ordinary tensor, or no tensor."""
    for module, name, answer in (("torch.distributed.tensor", "DTensor", "dtensor"),
                                 ("torch.distributed._tensor", "DTensor", "dtensor"),
                                 ("torch.distributed._shard.sharded_tensor", "ShardedTensor", "sharded")):
        type_ = getattr(sys.modules.get(module), name, None)
        if type_ is not None and isinstance(value, type_):
            return answer
    return None


def _module():
    try:
        import torch.distributed.tensor as module
    except ImportError:
        import torch.distributed._tensor as module
    return module


def _local_part(shape, mesh, placements):
    """Its shape and offset on this rank."""
    try:
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as compute
    except ImportError:
        from torch.distributed._tensor._utils import compute_local_shape_and_global_offset as compute
    local, offset = compute(tuple(shape), mesh, placements)
    return tuple(local), tuple(offset)


def _mesh_key(mesh):
    return [list(mesh.shape) if hasattr(mesh, "shape") else list(mesh.mesh.shape), list(mesh.mesh_dim_names or [])]


class Place:
    """Where the part of this rank lies."""

    def __init__(self, shape, mesh, placements):
        self.shape, self.mesh, self.placements = tuple(shape), mesh, tuple(placements)
        self.local, self.offset = _local_part(shape, mesh, placements)
        self.replicas, self.replica = 1, 0
        for dim, placement in enumerate(placements):
            if placement.is_replicate():
                self.replica = self.replica * mesh.size(dim) + mesh.get_local_rank(dim)
                self.replicas *= mesh.size(dim)

    def text(self):
        """As it is described."""
        return [list(self.shape), [[] if item.is_replicate() else [item.dim] for item in self.placements],
                *_mesh_key(self.mesh)]

    def engine(self):
        """Arguments of an engine.Part."""
        return {"global_shape": self.shape, "offset": self.offset, "replicas": self.replicas, "replica": self.replica}


def place(value, path):
    for item in value.placements:
        if type(item).__name__ not in ("Shard", "Replicate"):
            raise CheckpointError("%s: a DTensor placed as %r cannot be saved; use lockstep.checkpoint.dcp" % (path, item))
    found = Place(value.shape, value.device_mesh, value.placements)
    if tuple(value.to_local().shape) != found.local:
        raise CheckpointError("%s: the local part of this DTensor is %s, expected %s" % (
            path, tuple(value.to_local().shape), found.local))
    return found


class Meshes:
    """Those of the DTensors that the program has given."""

    def __init__(self, values):
        self._found = []
        for value in values:
            if kind(value) == "dtensor" and all(mesh is not value.device_mesh for mesh in self._found):
                self._found.append(value.device_mesh)

    def place(self, text, name):
        """Of a described DTensor, on the mesh that corresponds to the one it was saved from."""
        shape, placements, mesh_shape, names = text
        alike = [mesh for mesh in self._found if _mesh_key(mesh) == [mesh_shape, names]] or [
            mesh for mesh in self._found if mesh.ndim == len(mesh_shape) and list(mesh.mesh_dim_names or []) == names]
        if not alike:
            raise CheckpointError("%s was a DTensor on a mesh of %s; give a model whose parameters are on such a mesh" % (
                name, "x".join(map(str, mesh_shape))))
        module = _module()
        return Place(shape, alike[0], [module.Shard(*item) if item else module.Replicate() for item in placements])


def rebuild(torch, local, place):
    """The DTensor of a local part."""
    local = local.to(place.mesh.device_type)
    if place.mesh.device_type == "cuda":
        local = local.to(torch.cuda.current_device())
    stride, step = [], 1
    for size in reversed(place.shape):
        stride.insert(0, step)
        step *= max(size, 1)
    return _module().DTensor.from_local(local, place.mesh, place.placements, run_check=False,
                                        shape=torch.Size(place.shape), stride=tuple(stride))


def local(tensor):
    """What this rank has of it."""
    return tensor.to_local() if kind(tensor) == "dtensor" else tensor
