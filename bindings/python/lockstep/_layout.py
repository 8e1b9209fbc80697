# SPDX-License-Identifier: Apache-2.0
"""Where this rank is in the parallel layout, and what its groups are for.

Sizes and indices go by the names tp, pp, dp, cp, ep.  What is said by hand holds, then what the
environment says, then what the hooks find.
"""
from ._probe import complain, probe

NAMES = ("tp", "pp", "dp", "cp", "ep")
# What people call the dimensions of a mesh.
DIMENSIONS = {
    "dp": "dp", "ddp": "dp", "data": "dp", "data_parallel": "dp", "fsdp": "dp", "hsdp": "dp",
    "replicate": "dp", "dp_replicate": "dp", "shard": "dp", "dp_shard": "dp", "batch": "dp",
    "tp": "tp", "tensor": "tp", "tensor_parallel": "tp", "model": "tp", "mp": "tp",
    "pp": "pp", "pipe": "pp", "pipeline": "pp", "stage": "pp", "pipeline_parallel": "pp",
    "cp": "cp", "context": "cp", "sp": "cp", "sequence": "cp",
    "ep": "ep", "expert": "ep", "expert_parallel": "ep",
}
GUESSED, FOUND, TOLD, BY_HAND = range(4)  # whom to believe: the higher, and among equals the later


def kind_of(name):
    """Of a dimension of a mesh, by its name; None: not known."""
    return DIMENSIONS.get(name)


def arrange(rank, world, sizes):
    """Sizes by name, and this rank's place, in Megatron's order: tensor innermost, then context, data,
    pipeline; experts divide the data ranks.  dp is what remains when it is not given.
    """
    size = {name: int(sizes.get(name) or 1) for name in NAMES}
    inner = size["tp"] * size["cp"]
    if not sizes.get("dp"):
        size["dp"] = max(1, world // (inner * size["pp"]))
    index = {
        "tp": rank % size["tp"],
        "cp": rank // size["tp"] % size["cp"],
        "dp": rank // inner % size["dp"],
        "pp": rank // (inner * size["dp"]) % size["pp"],
    }
    index["ep"] = index["dp"] % size["ep"]
    return size, index


class Where:
    def __init__(self):
        self.trust = GUESSED
        self.known = None  # (sizes, indices) last told
        probe.on_open.append(self.tell)

    def tell(self):
        if self.known and probe.handle:
            probe.layout(*self.known)

    def set(self, size, index, trust=GUESSED):
        """Dictionaries by name; what is missing is 1 and 0.  Nonsense is refused, as the library does."""
        if trust < self.trust:
            return
        sizes = [int(size.get(name, 1)) for name in NAMES]
        indices = [int(index.get(name, 0)) for name in NAMES]
        if any(not 0 <= i < s < 1 << 16 for i, s in zip(indices, sizes)):
            complain("layout refused: sizes %r, indices %r" % (size, index))
            return
        self.trust = trust
        self.known = (sizes, indices)
        self.tell()


where = Where()
