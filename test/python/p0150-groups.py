# SPDX-License-Identifier: Apache-2.0
"""What process groups are for: device meshes of all versions of torch, and groups that only a device uses.

A mesh and torch's tables of groups are played here; with a later torch p2200-later has real ones.
"""
from tap import equal, main, python, test

SCENE = """
import sys, types
from lockstep._probe import probe
assert probe.open(1, 8)

class Group:
    pass

c10d = types.ModuleType("torch.distributed.distributed_c10d")
c10d._world = types.SimpleNamespace(pg_group_ranks={}, pg_names={})
sys.modules["torch.distributed.distributed_c10d"] = c10d

def make(name, members):
    group = Group()
    c10d._world.pg_group_ranks[group] = {rank: i for i, rank in enumerate(members)}
    c10d._world.pg_names[group] = name
    return group

class Shape:
    shape = (2, 2, 2)

class DeviceMesh:
    mesh_dim_names = ("pp", "dp_shard", "tensor")
    mesh = Shape

    def __init__(self, late):
        self.groups = None
        if not late:
            self.init_groups()

    def init_groups(self):
        self.groups = [make("0", [1, 5]), make("1", [1, 3]), make("2", [0, 1])]

    def get_coordinate(self):
        return [0, 0, 1]

    def get_group(self, dimension):
        if self.groups is None:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return self.groups[dimension]

told = []
probe.library.nccl_group = lambda *args: told.append(args)
from lockstep import _collectives, _found
from lockstep._groups import groups
from lockstep._layout import where
_found.hook_mesh(types.SimpleNamespace(DeviceMesh=DeviceMesh))
"""


def said(place, script):
    done = python(SCENE + script, {"LOCKSTEP_DIR": place, "RANK": "1", "WORLD_SIZE": "8"})
    equal((done.returncode, done.stderr), (0, ""))
    return done.stdout.splitlines()


@test
def the_groups_of_a_mesh_have_their_kind_when_a_device_first_uses_them(place):
    for late in ("False", "True"):
        lines = said(place, """
mesh = DeviceMesh(%s)
if mesh.groups is None:
    mesh.init_groups()
for group in mesh.groups:
    print(groups.hint_begin(group), groups.hint_begin(group))
    groups.hint_end()
for one in told:
    print(*one)
""" % late)
        equal(lines[:3], ["True False"] * 3)
        equal(lines[3:], ["2 0 4 b'pp'", "0 0 0 None", "2 0 2 b'dp'", "0 0 0 None", "2 1 3 b'tp'", "0 0 0 None"])


@test
def a_group_that_nobody_knows_has_torchs_name_and_one_of_all_is_the_world(place):
    equal(said(place, """
groups.hint_begin(make("7", [1, 2, 3]))
groups.hint_begin(make("default", range(8)))
groups.hint_begin(make("9", [2, 3]))  # not one of its members: nothing is expected
for one in told:
    print(*one)
"""), ["3 0 0 b'group 7'", "8 1 1 b'world'"])


@test
def a_group_that_torch_makes_for_a_mesh_says_what_it_is_for(place):
    equal(said(place, """
print(_found.kind_of_group("mesh_tp"), _found.kind_of_group("mesh_colour"), _found.kind_of_group(None),
      _found.kind_of_group("undefined"))
print(_collectives._expect_group(([1, 5],), {"group_desc": "mesh_ep"}),
      _collectives._expect_group((), {"ranks": [1, 3], "group_desc": "mesh_cp"}),
      _collectives._expect_group(([2, 3],), {"group_desc": "mesh_tp"}), _collectives._expect_group((), {}))
for one in told:
    print(*one)
"""), ["tp None None None", "True True False False", "2 0 6 b'ep'", "2 0 5 b'cp'"])


@test
def an_op_of_a_device_is_called_once_and_the_expectation_ends_with_it(place):
    equal(said(place, """
group = make("3", [1, 2])

def works(group, *args, **kwargs):
    return args, kwargs

def fails(group):
    raise ValueError("as torch does")

print(_collectives.on_device(works, group, (1, 2), {"a": 3}))
other = make("4", [0, 1])
try:
    _collectives.on_device(fails, other, (), {})
except ValueError as error:
    print(error)
for one in told:
    print(*one)
"""), ["((1, 2), {'a': 3})", "as torch does", "2 0 0 b'group 3'", "0 0 0 None", "2 1 0 b'group 4'", "0 0 0 None"])


main()
