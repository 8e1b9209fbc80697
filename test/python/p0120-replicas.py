# SPDX-License-Identifier: Apache-2.0
"""Replicas that differ have other digests, in the part that differs, and nothing else changes."""
from ring import rings
from tap import equal, main, need_torch, python, test

TRAIN = """
import sys, torch, lockstep
flip = int(sys.argv[1])
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.GELU(), torch.nn.Linear(64, 40),
                            torch.nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last))
model.half_weight = torch.nn.Parameter(torch.randn(100).to(torch.bfloat16))
optimizer = torch.optim.SGD(model[:3].parameters(), lr=0.1)
if "watch" in sys.argv:
    lockstep.watch_replicas(model)
for step in range(40):
    with lockstep.step():
        x = torch.randn(8, 40)
        loss = ((model[:3](x) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == flip:
            with torch.no_grad():
                model.half_weight.view(torch.int16)[99] ^= 1
print(loss.item().hex())
"""


def trained(place, flip, *words):
    done = python(TRAIN, {"LOCKSTEP_DIR": place, "RANK": "0", "WORLD_SIZE": "2"}, [str(flip), *words])
    equal((done.returncode, done.stderr), (0, ""))
    (ring,) = rings(place)
    return done.stdout.strip(), {event.step: (event.a & 0xFFFFFFFF, event.a >> 32, event.b, event.c)
                                 for event in ring.of("digest")}


@test
def equal_replicas_have_equal_digests(place):
    one, digests = trained(place + "/a", -1, "watch")
    other, again = trained(place + "/b", -1, "watch")
    equal((one, digests), (other, again))
    parts = {parts for _, parts, _, _ in digests.values()}
    equal(len(parts), 1)
    count = parts.pop()
    equal(count >= 16, True)
    equal({step: part for step, (part, _, _, _) in digests.items()},
          {step: step % count for step in digests})
    # The optimizer changes what it has, every step; what it does not have stays as it was.
    equal(digests[0][2:] != digests[count][2:], True)


@test
def one_bit_that_differs_shows_in_its_part(place):
    _, right = trained(place + "/a", -1, "watch")
    _, wrong = trained(place + "/b", 3, "watch")
    differ = [step for step in right if right[step] != wrong[step]]
    equal(len({right[step][0] for step in differ}), 1)
    equal(all(step >= 3 for step in differ) and len(differ) >= 2, True)


@test
def watching_does_not_change_the_training(place):
    watched, digests = trained(place + "/a", -1, "watch")
    plain, none = trained(place + "/b", -1)
    equal((watched, none), (plain, {}))


@test
def a_model_that_is_gone_is_watched_no_more(place):
    script = """
import gc, torch, lockstep
from lockstep._steps import steps
before = len(steps.at_end)
model = torch.nn.Linear(64, 64)
lockstep.watch_replicas(model)
with lockstep.step():
    pass
del model
gc.collect()
with lockstep.step():
    pass
print(len(steps.at_end) - before)
lockstep.watch_replicas(torch.nn.Linear(2, 2))
lockstep.watch_replicas(None)
print(len(steps.at_end) - before)
"""
    done = python(script, {"LOCKSTEP_DIR": place, "RANK": "0", "WORLD_SIZE": "1"})
    equal((done.returncode, done.stdout.split(), done.stderr), (0, ["0", "0"], ""))


@test
def whatever_can_be_a_parameter_is_taken(place):
    script = """
import torch
from lockstep import _replicas
tensors = [torch.zeros(3, 4, dtype=kind) for kind in (torch.float64, torch.float16, torch.int8, torch.bool,
                                                     torch.complex64)]
tensors += [torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.zeros(4, 4).t()[1:],
            torch.zeros(()), torch.zeros(0), torch.zeros(2, 2).to_sparse(), torch.zeros(2, device="meta")]
watch = _replicas.Replicas(torch, tensors)
taken = sum(end - begin for part in watch.parts for _, begin, end in part)
print(taken, sum(watch._digest(part)[0].item() for part in watch.parts if part))
"""
    done = python(script)
    equal((done.returncode, done.stderr), (0, ""))
    equal(done.stdout.split(), [str(12 * 4 + 24 + 120 + 12 + 1), "0"])


need_torch()
main()
