"""A program that ends while an operation is open ends as it would without lockstep: status, output, core dumps.

By default a part of the cases, in which each operation and each way to end occurs; LOCKSTEP_EXIT_CASES=all runs
every operation with every way to end, LOCKSTEP_EXIT_RUNS=N each of them N times attached.
"""
import os

import exits
from tap import main, need_torch, test

need_torch()
exits.allow_dumps()

RUNS = int(os.environ.get("LOCKSTEP_EXIT_RUNS", "1"))
CASES = exits.SOME
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
