# SPDX-License-Identifier: Apache-2.0
"""Values on a device are told a fixed number of steps later, and nobody waits for them.

The device is played: its memory is the host's, and its events happen when the test says so.
"""
from ring import rings
from tap import equal, main, need_torch, python, test

TRAIN = """
import sys, torch, lockstep
from lockstep import _late

class Event:
    def __init__(self, device):
        self.at = device.done_after
    def query(self):
        Event.asked += 1
        if device.capturing():
            raise RuntimeError("operation not permitted when stream is capturing")
        return _late.steps.number >= self.at

class Device:
    done_after = 0
    captured = ()
    def memory(self, count):
        return torch.zeros(count)
    def capturing(self):
        return _late.steps.number in self.captured
    def after(self, tensor):
        return Event(self)

Event.asked = 0
device = Device()
late = _late.Late(device)
exec(sys.argv[1])
for step in range(40):
    with lockstep.step():
        before(step)
        late.take(1, torch.tensor(step + 0.5, dtype=kind))
        after(step)
"""

PLAIN = "before = after = lambda step: None\nkind = torch.float32\n"


def told(place, words):
    done = python(TRAIN, {"LOCKSTEP_DIR": place, "RANK": "0", "WORLD_SIZE": "2"}, [PLAIN + words])
    equal((done.returncode, done.stderr), (0, ""))
    (ring,) = rings(place)
    by_step = {}
    for event in ring.of("metric"):
        by_step.setdefault(event.step, {})[event.detail] = event.a
    return by_step


@test
def a_value_comes_eight_steps_later_with_its_age(place):
    steps = told(place, "")
    equal(sorted(steps), list(range(8, 40)))
    equal(all(values == {"loss": step - 8 + 0.5, "values_late": 8.0} for step, values in steps.items()), True)


@test
def one_that_has_not_arrived_is_not_told(place):
    steps = told(place, "def before(step):\n    device.done_after = 99 if step == 20 else step + 3\n")
    equal(sorted(steps), [step for step in range(8, 40) if step != 28])


@test
def what_is_captured_into_a_graph_is_left_alone(place):
    steps = told(place, "device.captured = (10, 11)\n")
    equal(sorted(steps), [step for step in range(8, 40) if step not in (10, 11, 18, 19)])


@test
def half_precision_and_the_newest_of_a_step(place):
    steps = told(place, "kind = torch.bfloat16\nafter = lambda step: late.take(1, torch.tensor([float('nan')]))\n")
    equal(all(values["loss"] != values["loss"] for values in steps.values()), True)
    equal(len(steps), 32)


@test
def what_is_no_scalar_is_left_out(place):
    steps = told(place, "late_take = late.take\n"
                        "late.take = lambda metric, value: late_take(metric, torch.ones(2)) or "
                        "late_take(metric, torch.tensor(3))\n")
    equal(steps, {})


@test
def a_fault_of_ours_is_said_once_and_ends_it(place):
    done = python(TRAIN, {"LOCKSTEP_DIR": place, "RANK": "0", "WORLD_SIZE": "2", "LOCKSTEP_DEBUG": "1"},
                  [PLAIN + "device.memory = None\n"])
    equal(done.returncode, 0)
    equal(done.stderr.count("values on a device are not recorded"), 1)
    done = python(TRAIN, {"LOCKSTEP_DIR": place, "RANK": "0", "WORLD_SIZE": "2", "LOCKSTEP_DEBUG": "1"},
                  [PLAIN + "Event.query = None\n"])
    equal(done.returncode, 0)
    equal(done.stderr.count("values on a device are not recorded"), 1)


need_torch()
main()
