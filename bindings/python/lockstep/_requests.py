# SPDX-License-Identifier: Apache-2.0
"""Requests of the launcher: a checkpoint at the end of a step that is the same for all ranks.

A program that registered no callback refuses, so that whoever asks need not wait.  Looking for a request is one
call of the library for each step.
"""
from ._probe import complain, probe
from ._steps import steps

CHECKPOINT = 1
DONE, PAST, REFUSED = 1, 2, 3


class Requests:
    def __init__(self):
        self.save = self.agree = None
        self.saved = None  # the step at whose end the program saved last, because of a request
        self.elsewhere = None  # a Checkpointer serves them, when its step() is called

    def at_end(self):
        """Before the end of a step is marked."""
        if self.elsewhere is not None and self.save is None:
            return
        request, number = probe.request(), steps.number
        if request is not None and request.kind != CHECKPOINT:
            request = None
        if request is not None and self.save is None:
            probe.answer(request, REFUSED)
            return
        if request is not None and request.step < number:
            probe.answer(request, DONE if request.step == self.saved else PAST)
            request = None
        due = request is not None and request.step == number
        if self._wanted(due):
            done = self._saves(number)
            if due:
                probe.answer(request, DONE if done else REFUSED)

    def _wanted(self, due):
        return bool(self.agree(due)) if self.agree is not None else due

    def _saves(self, number):
        try:
            if self.save(number) is False:
                return False
        except Exception as error:  # the program's own; training goes on
            complain("checkpoint request at step %d: %r" % (number, error))
            return False
        self.saved = number
        return True


requests = Requests()
steps.at_end.append(requests.at_end)
