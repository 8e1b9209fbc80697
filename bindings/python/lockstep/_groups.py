# SPDX-License-Identifier: Apache-2.0
"""Process groups as communicators: the same id on all members, another one for each group.

torch counts groups alike on all ranks, and its name for one is that count (or a hash of the members),
so name and members together are the id.  A group is known by its address while it lives; nothing
here keeps it alive.
"""
import hashlib
import sys
import weakref

from ._probe import complain, probe
from . import _layout

KINDS = {"world": 1, "dp": 2, "tp": 3, "pp": 4, "cp": 5, "ep": 6}


class Groups:
    def __init__(self):
        self._known = {}  # id of the group: (weak reference, handle)
        self.kinds = {}  # members: what they are for, from whoever knows
        self.ask = []  # who may know more by now, before a group is used for the first time
        self._hinted = {}  # id of a group whose ops a device runs: weak reference
        probe.on_open.append(self.forget)

    def forget(self):
        self._known.clear()
        self._hinted.clear()

    def handle(self, group):
        """The communicator's handle; negative: not recorded."""
        entry = self._known.get(id(group))
        if entry is not None:
            return entry[1]
        return self._add(group)

    def _add(self, group):
        key = id(group)
        handle = -1
        try:
            handle = self._register(group)
        except Exception as error:
            complain("a process group is not recorded: %r" % (error,))
        known = self._known
        known[key] = (weakref.ref(group, lambda _: known.pop(key, None)), handle)
        return handle

    def _kind(self, members):
        if len(members) == probe.world:
            return "world"
        for ask in self.ask:
            ask()
        return self.kinds.get(tuple(members), "other")

    def expect(self, members, kind, name):
        """NCCL makes a communicator for these members when a device first uses the group, and knows neither."""
        label = kind if kind != "other" else "group %s" % name
        probe.library.nccl_group(len(members), members.index(probe.rank), KINDS.get(kind, 0),
                                 label.encode("utf-8", "replace"))

    def hint_begin(self, group):
        """Before an op of a device; True: it is the first of this group, and hint_end() must follow it."""
        key = id(group)
        if key in self._hinted:
            return False
        hinted = self._hinted
        hinted[key] = weakref.ref(group, lambda _: hinted.pop(key, None))
        try:
            members, name = describe(group)
            self.expect(members, self._kind(members), name)
            return True
        except Exception as error:
            complain("a process group has no name: %r" % (error,))
            return False

    def hint_end(self):
        probe.library.nccl_group(0, 0, 0, None)

    def _register(self, group):
        members, name = describe(group)
        index = members.index(probe.rank)
        kind = self._kind(members)
        text = "%s|%s" % (name, ",".join(map(str, members)))
        identity = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        label = kind if kind != "other" else "group %s" % name
        return probe.comm_add(identity & ((1 << 64) - 2), len(members), index, KINDS.get(kind, 0), label)

    def mean(self, group, kind):
        """This group is for that kind of parallelism; counts where it has not been used yet."""
        members, _ = describe(group)
        self.kinds.setdefault(tuple(members), kind)


def describe(group):
    """(global ranks of the members in the group's order, torch's name).  KeyError: not torch's own."""
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    world = getattr(c10d, "_world", None)
    ranks = c10d._pg_group_ranks if world is None else world.pg_group_ranks
    names = c10d._pg_names if world is None else world.pg_names
    of = ranks[group]  # {global rank: rank in the group}
    return sorted(of, key=of.get), names[group]


groups = Groups()


def is_data_parallel(group):
    """A group whose members hold replicas: all that is known of the layout, where it is not given."""
    members, _ = describe(group)
    if len(members) == probe.world:
        _layout.where.set({"dp": probe.world}, {"dp": probe.rank}, trust=_layout.GUESSED)
    else:
        groups.mean(group, "dp")
