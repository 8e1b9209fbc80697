# SPDX-License-Identifier: Apache-2.0
"""The callbacks for trainers, called in the order in which Lightning and Hugging Face's Trainer do.

Neither is a Debian package; where one is installed its own base class is used, here a plain one.
test/gpu/trainers_check.py runs the packages themselves, where they are.
"""
from ring import rings
from tap import equal, main, python, test

LIGHTNING = """
import types
from lockstep.lightning import Callback

trainer = types.SimpleNamespace(global_step=100)
module = object()
callback = Callback()
callback.on_train_start(trainer, module)
for batch in range(6):  # two batches a step
    callback.on_train_batch_start(trainer, module, None, batch)
    callback.on_before_backward(trainer, module, None)
    callback.on_after_backward(trainer, module)
    if batch % 2:
        callback.on_before_optimizer_step(trainer, module, None)
        trainer.global_step += 1
    callback.on_train_batch_end(trainer, module, {"loss": 0.5}, None, batch)
    if batch == 3:
        callback.on_validation_start(trainer, module)
        callback.on_validation_end(trainer, module)
callback.on_train_end(trainer, module)
"""
TRANSFORMERS = """
import types
from lockstep.transformers import Callback

state = types.SimpleNamespace(global_step=7)
callback = Callback()
callback.on_train_begin(None, state, None, model=None, optimizer=None)
for _ in range(3):
    callback.on_step_begin(None, state, None, model=None)
    callback.on_pre_optimizer_step(None, state, None)
    callback.on_optimizer_step(None, state, None)
    state.global_step += 1
    callback.on_step_end(None, state, None)
    callback.on_log(None, state, None, logs={"loss": 2.0, "learning_rate": 0.1})
callback.on_train_end(None, state, None)
"""


def heard(place, script):
    done = python(script, {"LOCKSTEP_DIR": place, "RANK": "0", "WORLD_SIZE": "1"})
    equal((done.returncode, done.stderr), (0, ""))
    (ring,) = rings(place)
    equal(ring.check_nesting(), [])
    return ring


@test
def a_global_step_of_lightning_is_a_step(place):
    ring = heard(place, LIGHTNING)
    equal(ring.steps(), [100, 101, 102])
    equal([event.step for event in ring.of("step_end")], [100, 101, 102])
    equal(ring.phases(100), ["forward", "backward", "forward", "backward", "optimizer"])
    equal(ring.phases(101)[-1], "eval")
    equal(ring.metrics("loss"), [(100, 0.5), (101, 0.5), (102, 0.5)])


@test
def a_global_step_of_transformers_is_a_step(place):
    ring = heard(place, TRANSFORMERS)
    equal(ring.steps(), [7, 8, 9])
    equal(ring.phases(8), ["optimizer"])
    equal([loss for _, loss in ring.metrics("loss")], [2.0, 2.0, 2.0])


@test
def given_and_found_it_speaks_once(place):
    twice = LIGHTNING.replace("callback = Callback()", """
class Both:
    def __init__(self):
        self.all = [Callback(), Callback()]
    def __getattr__(self, name):
        return lambda *args: [getattr(one, name)(*args) for one in self.all]
callback = Both()""")
    assert twice != LIGHTNING
    ring = heard(place, twice)
    equal(ring.steps(), [100, 101, 102])
    equal(ring.metrics("loss"), [(100, 0.5), (101, 0.5), (102, 0.5)])


@test
def a_batch_fetched_before_the_first_step_begins_none(place):
    """The hooks begin steps at a fetch unless a trainer says its own; it must have said so by then."""
    ring = heard(place, LIGHTNING.replace("for batch in range(6):", """
from lockstep._loop import loop
loop._front(fetch=True)
for batch in range(6):"""))
    equal(ring.steps(), [100, 101, 102])


@test
def both_do_nothing_where_nobody_listens(place):
    for script in (LIGHTNING, TRANSFORMERS):
        done = python(script, cwd=place)
        equal((done.returncode, done.stdout, done.stderr), (0, "", ""))


@test
def lightning_gets_a_callback_only_under_lockstep(place):
    script = "from lockstep import lightning; print(len(lightning.callbacks()))"
    equal(python(script).stdout.strip(), "0")
    equal(python(script, {"LOCKSTEP_DIR": place}).stdout.strip(), "1")


main()
