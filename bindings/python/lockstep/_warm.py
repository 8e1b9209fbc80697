# SPDX-License-Identifier: Apache-2.0
"""Writes down what a rank had imported before its first process group, for the standby processes of `lockstep run --warm`.

The first rank of a node does it, once; the file is $LOCKSTEP_WARM.  Modules of lockstep itself are left out: a standby attaches when it becomes a
rank.
"""
import os
import sys

from ._probe import complain

_done = False


def note():
    """Called when the first process group is made."""
    global _done
    path = os.environ.get("LOCKSTEP_WARM")
    if _done or not path or os.environ.get("LOCAL_RANK") != "0":
        return
    _done = True
    ours = __package__.split(".")[0]
    names = [name for name in list(sys.modules) if name != "__main__" and name.split(".")[0] not in (ours, "lockstep")]
    try:
        new = "%s.%d" % (path, os.getpid())  # of several nodes that are simulated on one machine each has a first rank
        with open(new, "w") as out:
            out.write("".join(name + "\n" for name in names))
        os.replace(new, path)
    except OSError as error:
        complain("--warm: %r" % (error,))
