# SPDX-License-Identifier: Apache-2.0
"""The training loop, from what its parts do: fetch, forward, backward, optimizer.

A step ends at the last optimizer call before the next forward.  Which call was the last is known only
when something of the next step begins: the loader is asked for a batch, the parallel model's forward or
a backward is called.  At that moment the step ends and the next one begins, so that waiting for
the batch belongs to the step that uses it.

  optimizer, optimizer | fetch, forward, backward, fetch, forward, backward, optimizer, optimizer |

Where a loader drives, only it begins steps: two networks that train in turns on one batch, each with
its optimizer, make one step.  The same optimizer called twice without a fetch shows that it does not.

Where only backward and optimizer are to be seen (no loader, no DistributedDataParallel), forward
lies between the two, unseen.  Then the optimizer that was the last one of the step before ends a step
at once.

Where torch.compile took the optimizer in, nobody sees it called.  Then a zero_grad() outside, after a backward, ends a step;
without one, each fetch of a loader, or else each backward, is taken for a step's beginning once there have been many of them.

Eval loops and checkpoints that follow an optimizer call lie between steps.  One thread trains: what
others do (a thread that prefetches) is not the loop.
"""
import threading
import weakref

from . import _fast, _torch, _where  # noqa: F401  _fast: marks of phases go past ctypes once the ring is open
from ._probe import probe
from ._steps import steps

INIT, COMM_INIT, COMPILE, DATA, FORWARD, BACKWARD, OPTIMIZER, CHECKPOINT, EVAL = range(1, 10)
OTHER = 11
LOSS, GRAD_NORM, TOKENS, LENGTH_SQUARES, MICRO_BATCHES = range(1, 6)
FLOP = 7
_get_ident = threading.get_ident
ZEROED = 3  # calls of zero_grad() after a backward, and no optimizer was ever called: it is compiled
REPEATED = 64  # the same of backwards or fetches


class Loop:
    def __init__(self):
        self.thread = threading.main_thread().ident
        self.stepped = False  # an optimizer call has ended in the step now open
        self.forward = False  # the phase is open
        self.evaluating = False
        self.eval_iterator = None  # id of the iterator whose end ends the evaluation
        self.starting = False  # phase init is open
        self.roots = False  # the forward of a parallel model has been seen: it says where forward begins
        self.blind = False  # a step began with its backward: nothing shows us its forward
        self.driven = False  # by a loader: the step now open began with a fetch
        self.called = set()  # ids of the optimizers called in the step now open
        self.last = self.final = None  # weak: the optimizer called last; the last one of a blind step
        self.fetching = self.computing = self.optimizing = self.saving = 0  # depths
        self.capturing = False  # what is called goes into a CUDA graph and runs later
        self.captured = False  # an optimizer was
        self.zeroed = self.repeated = 0  # of ZEROED and REPEATED; no optimizer has been called yet
        self.counted = None  # the step that these are counts of
        self.micro_batches = self.tokens = self.squares = 0
        self.length = 1  # of the newest batch's sequences
        probe.on_open.append(self._opened)

    def _opened(self):
        if steps.next == 0 and _get_ident() == self.thread:
            self.starting = True
            probe.phase_begin(INIT)
            steps.before_first.append(self._started)

    def _started(self):
        if self.starting:
            self.starting = False
            probe.phase_end(INIT)
            if not steps.by_hand:
                from . import _training
                steps.next = max(steps.next, _training.taken())

    def awake(self):
        """Is this the training thread of a process with a ring?  Opens it at the first sign of training."""
        if _get_ident() != self.thread or self.capturing:
            return False
        if probe.handle:
            return True
        return not (probe.forked or _where.is_worker()) and probe.open()

    # ---- steps ----

    def _front(self, fetch=False):
        """Something begins that stands at the front of a step."""
        if steps.by_hand:
            return
        if steps.number is None or self.stepped and (fetch or not self.driven):
            self.stepped = False
            self.driven = fetch
            self.called.clear()
            steps.begin()

    def _repeat(self, fetch=False):
        """A fetch, or without a loader a backward, of a training whose optimizer nobody has seen: one of many begins a step."""
        if not fetch and self.driven or self.stepped or self.zeroed or steps.by_hand or self.last is not None:
            return
        self.repeated += 1
        if self.repeated > REPEATED:
            steps.begin()

    def zero_begin(self):
        """Gradients are set to zero: where an optimizer is seen it has been called by then."""
        if self.last is not None or self.stepped or self.computing or not self.micro_batches or self.counted != steps.number \
                or steps.by_hand:
            return
        self.zeroed += 1
        self.repeated = 0
        if self.zeroed > ZEROED:
            self._leave_forward()
            self.driven = False
            steps.begin()

    def _fresh(self):
        """Counts are those of one step, whoever says where it begins."""
        if self.counted != steps.number:
            self.counted = steps.number
            self.micro_batches = self.tokens = self.squares = 0

    def _settle(self):
        """Something begins that stands between steps: the one whose optimizer has been called is over."""
        self._leave_forward()
        if self.stepped and not steps.by_hand:
            steps.end()

    def _enter_forward(self):
        if not self.forward:
            self.forward = True
            probe.phase_begin(FORWARD)

    def _leave_forward(self):
        if self.forward:
            self.forward = False
            probe.phase_end(FORWARD)

    # ---- the loader ----

    def loader_begin(self):
        """An iterator is made, and workers with it.  The first one may be made long before the first step."""
        if self.stepped and not self.evaluating and _torch.grad_enabled():
            self._leave_forward()
            self._front(fetch=True)

    def fetch_begin(self, iterator, ending):
        self.fetching += 1
        if self.fetching > 1:
            return
        if _torch.grad_enabled():
            if self.eval_iterator is not None:  # an evaluation that did not read all of its data
                self.eval_end()
        elif not self.evaluating and not self.optimizing:
            self.eval_begin(iterator)
        if self.forward:
            self._leave_forward()
        if not self.evaluating:
            if ending:
                self._settle()
            else:
                if self.last is None:
                    self._repeat(fetch=True)
                self._front(fetch=True)
        probe.phase_begin(DATA)

    def fetch_end(self, iterator, batch, ended):
        self.fetching -= 1
        if self.fetching:
            return
        probe.phase_end(DATA)
        if self.evaluating:
            if ended and self.eval_iterator == id(iterator):
                self.eval_end()
        elif not ended:
            self._count(batch)
            if not self.roots:
                self._enter_forward()

    def _count(self, batch):
        """Tokens of the batch: what looks like token ids, rows of whole numbers."""
        if isinstance(batch, (tuple, list)):
            batch = batch[0] if batch else None
        elif not isinstance(batch, _torch.Tensor) and hasattr(batch, "keys"):
            batch = batch["input_ids"] if "input_ids" in batch.keys() else None
        if not isinstance(batch, _torch.Tensor) or batch.dim() != 2 or batch.is_floating_point():
            return
        rows, length = batch.shape
        if length < 2 or batch.element_size() < 2:
            return
        self._fresh()
        self.length = length
        self.tokens += rows * length
        self.squares += rows * length * length
        probe.metric(TOKENS, self.tokens)
        probe.metric(LENGTH_SQUARES, self.squares)

    def exchanged(self, rows):
        """Rows that an exchange with uneven sizes brings: where they are tokens for this rank's experts, they are its work, so
        they count into the sum of squares as if their sequences were as long as the batch's.  Those of a backward are not seen."""
        if not self.awake():
            return
        self._fresh()
        self.squares += rows * self.length
        probe.metric(TOKENS, self.tokens)
        probe.metric(LENGTH_SQUARES, self.squares)

    # ---- forward, backward, optimizer ----

    def root_forward(self, training):
        """The forward of a parallel model, outermost."""
        if not training or not _torch.grad_enabled():
            return
        self.roots = True
        if self.evaluating:
            self.eval_end()
        if self.optimizing or self.computing:
            return
        self._front()
        self._enter_forward()

    def backward_begin(self):
        self.computing += 1
        if self.computing > 1:
            return
        if self.evaluating:
            self.eval_end()
        if self.forward:
            self.forward = False
            probe.phase_end(FORWARD)
        if self.optimizing:
            pass
        elif self.stepped or steps.number is None:
            if not self.driven:
                self.blind = True
                self.final = self.last
            self._front()
        elif self.last is None:
            self._repeat()
        probe.phase_begin(BACKWARD)

    def backward_end(self, loss):
        self.computing -= 1
        if self.computing:
            return
        probe.phase_end(BACKWARD)
        if self.counted != steps.number:
            self._fresh()
        self.micro_batches += 1
        if loss is not None:
            probe.metric(LOSS, loss)

    def optimizer_begin(self, optimizer):
        self.optimizing += 1
        if self.optimizing > 1:
            return
        if self.evaluating:
            self.eval_end()
        if self.forward:
            self._leave_forward()
        if self.driven and id(optimizer) in self.called:
            self.driven = False
            self._front()
        elif steps.number is None:
            self._front()
        probe.phase_begin(OPTIMIZER)

    def optimizer_end(self, optimizer):
        self.optimizing -= 1
        if self.optimizing:
            return
        probe.phase_end(OPTIMIZER)
        if self.counted != steps.number:
            self._fresh()
        if self.micro_batches:
            probe.metric(MICRO_BATCHES, self.micro_batches)
        self.stepped = True
        self.called.add(id(optimizer))
        self.last = weakref.ref(optimizer)
        if self.blind and self.final is not None and self.final() is optimizer:
            self._front()

    def replay_begin(self, graph):
        """A CUDA graph that steps an optimizer: all of a step, or its end."""
        self._leave_forward()
        if self.evaluating:
            self.eval_end()
        if id(graph) in self.called:
            self.driven = False
        self._front()
        probe.phase_begin(OTHER)

    def replay_end(self, graph):
        probe.phase_end(OTHER)
        self.stepped = True
        self.called.add(id(graph))

    # ---- between steps ----

    def eval_begin(self, iterator=None):
        if self.evaluating or self.optimizing or self.computing:
            return
        self._settle()
        self.evaluating = True
        self.eval_iterator = None if iterator is None else id(iterator)
        probe.phase_begin(EVAL)

    def eval_end(self):
        if self.evaluating:
            self.evaluating = False
            self.eval_iterator = None
            probe.phase_end(EVAL)

    def save_begin(self):
        self.saving += 1
        if self.saving == 1:
            if self.stepped and not self.evaluating:
                self._settle()
            probe.phase_begin(CHECKPOINT)

    def save_end(self):
        self.saving -= 1
        if not self.saving:
            probe.phase_end(CHECKPOINT)

    def finish(self):
        """The program ends: what is over is over, what is not stays open."""
        if not probe.handle or _get_ident() != self.thread:
            return
        self._started()
        self._leave_forward()
        self.eval_end()
        if self.stepped and not steps.by_hand:
            steps.end()


loop = Loop()
