# SPDX-License-Identifier: Apache-2.0
"""Functions of ours that stand between the program and torch do not show in its warnings.

torch warns with a stacklevel, so that the line of the program is named that called it.  A frame of ours in
between would be named instead, and "once for each line" would be once for all.  Python leaves frames of its own
import system out when it counts, and knows them by two words in the name of their file: so these functions say
that they come from such a file.  It begins with our directory, by which _failures.py knows them.
"""
import functools
import os

_ASIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "importlib", "_bootstrap")


def unseen(function):
    code = function.__code__
    function.__code__ = code.replace(co_filename=os.path.join(_ASIDE, os.path.basename(code.co_filename)))
    return function


def wraps(original):
    """functools.wraps() for a function that takes the place of one of torch's."""
    like = functools.wraps(original)
    return lambda function: like(unseen(function))
