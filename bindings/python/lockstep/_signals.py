# SPDX-License-Identifier: Apache-2.0
"""Signals that come during a backward in which a method of ours is called are handled after it.

That is our group's (_buckets.py), for buckets that C does not see.  Python would handle a signal that came meanwhile
right there, and the exception of its handler (Ctrl-C) would come out of backward as a RuntimeError, or not at all.
Without us it is handled after backward, as around any call into C++; so we have it handled then.

It is done here and not in the C half, which sets no handler and makes no system call.
"""
import _signal  # what signal's functions call, without turning each number into an enum: 30 of them a backward
import signal
import threading

from ._wrap import unseen

_SIGNALS = [int(number) for number in signal.valid_signals()
            if number not in (signal.SIGKILL, signal.SIGSTOP) and number < 32]


def _is_main():
    return threading.get_ident() == threading.main_thread().ident


def _handlers():
    """(number, handler) of those with a handler of the program, or Python's own for Ctrl-C.

    Looked up again for each backward: a stored reference would keep the object alive longer than the program does.
    """
    return [pair for pair in zip(_SIGNALS, map(_signal.getsignal, _SIGNALS)) if callable(pair[1])]


class _Signals:
    def __init__(self):
        self.came = {}  # number: frame; one that came twice is handled once, as ever
        self.away = False  # they are put off

    def later(self, number, frame):
        self.came.setdefault(number, frame)

    def deliver(self, handled):
        came, self.came = self.came, {}
        table = dict(handled)
        for number, frame in came.items():
            table[number](number, frame)


_signals = _Signals()
_later = _signals.later  # one object, to be known again


@unseen
def after(call, *args):
    """What comes meanwhile is handled at the end."""
    if _signals.away or not _is_main():
        return call(*args)
    handled = _handlers()
    try:
        _signals.away = True
        for number, _ in handled:  # Ctrl-C is the first to be put off
            _signal.signal(number, _later)
        return call(*args)
    finally:
        _signals.away = False
        for number, handler in reversed(handled):  # and the last to be taken again
            if _signal.getsignal(number) is _later:
                _signal.signal(number, handler)
        if _signals.came:
            _signals.deliver(handled)
