# SPDX-License-Identifier: Apache-2.0
"""Steps: where one ends, and its number.

What the program marks itself (`with lockstep.step():`, a trainer's callback) is right: from the first such mark on, steps
that the hooks find are not recorded.
"""
from ._probe import probe


class Steps:
    def __init__(self):
        self.number = None  # of the step now open
        self.next = 0
        self.by_hand = False
        self.before_first = []  # called once, before the first step begins
        self.at_begin = []  # called before each step's begin is marked; may remove itself
        self.at_end = []  # called before each step's end is marked

    def begin(self, number=None):
        """Begins a step, ending one that is still open; returns its number."""
        if self.number is not None:
            self.end()
        if self.before_first:
            calls, self.before_first = self.before_first, []
            for call in calls:
                call()
        for call in tuple(self.at_begin):
            call()
        if number is None:
            number = self.next
        self.number = number
        self.next = number + 1
        probe.step_begin(number)
        return number

    def end(self):
        if self.number is None:
            return
        for call in self.at_end:
            call()
        probe.step_end(self.number)
        self.number = None


steps = Steps()
