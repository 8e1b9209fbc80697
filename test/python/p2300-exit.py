"""A program that ends while an operation is open ends as it would without lockstep: status, output, core dumps.

By default a part of the cases, in which each operation and each way to end occurs; LOCKSTEP_EXIT_CASES=all runs
every operation with every way to end, LOCKSTEP_EXIT_RUNS=N each of them N times attached.
"""
import os
import resource

import exits
from tap import main, need_torch, test

need_torch()
# Where dumps are made at all; a small part is enough to know of it.
_, most = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (1 << 20 if most == resource.RLIM_INFINITY else min(most, 1 << 20), most))

RUNS = int(os.environ.get("LOCKSTEP_EXIT_RUNS", "1"))
# In turns the ways to end that take the interpreter down; the others once or twice.  A backward that just ends has
# nothing open.
_ways = ("exit", "end", "exception")
CASES = [(operation, _ways[number % len(_ways)]) for number, operation in enumerate(exits.OPENS)
         if not operation.startswith("bucket")]
CASES += [("bucket", "exit"), ("bucket", "exception"), ("bucket, hook", "exit"), ("bucket, thread", "end")]
CASES += [("all_reduce", "_exit"), ("bucket", "signal"), ("broadcast", "handled signal")]
if os.environ.get("LOCKSTEP_EXIT_CASES") == "all":
    CASES = exits.ALL


def add(case, env=None):
    def compare(place):
        compared = exits.Compared(place, case, env, RUNS)
        print("# %s: without lockstep %s, attached %s" % (case, *compared.statuses), flush=True)
        assert compared.same, compared.difference()

    words = "%s open, then %s%s" % (*case, "".join(", %s=%s" % pair for pair in (env or {}).items()))
    compare.__name__ = words.replace(" ", "_")
    test(compare)


for one in CASES:
    add(one)
for one in CASES:
    if one[0].startswith("bucket"):
        add(one, {"LOCKSTEP_GLOO": "python"})
main()
