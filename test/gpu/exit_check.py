# SPDX-License-Identifier: Apache-2.0
"""Programs on NCCL that end while an operation is open, without lockstep and attached: do they end alike?

The cases of test/python/exits.py, two ranks on one GPU, several cases at a time: status, output and core dumps of an
attached program must be those of the bare one, in one of the ways in which that was seen to end.  Prints a table;
exits 1 when a case differs, 77 without a GPU.  Needs torch with CUDA and a built liblockstep.so; without one it is
compiled by cc.

    python3 test/gpu/exit_check.py [--lib build/liblockstep.so.0] [--all] [--jobs 6] [--seconds 400]
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
os.environ["BUILD"] = SOURCE  # the package as it lies in the tree
sys.path.insert(0, os.path.join(SOURCE, "test", "python"))

import exits  # noqa: E402
import twice  # noqa: E402

# On a device these take the interpreter down as well, and each is quick; the rest is --all.
SOME = [(operation, end) for operation in exits.OPENS for end in ("end", "exit", "exception")]
SOME += [("all_reduce", "_exit"), ("all_reduce", "signal"), ("all_reduce", "handled signal"), ("bucket", "_exit"),
         ("bucket", "signal"), ("isend, irecv, batch", "signal")]

# The ranks do not end at one moment.  Whether NCCL's watchdog sees that the other one has gone, and aborts, before
# a rank has ended is a race, whatever operation was open.
ABRUPT = ("_exit", "signal")


def library(given, place):
    if given:
        return os.path.abspath(given)
    out = os.path.join(place, "liblockstep.so.0")
    with open(os.path.join(SOURCE, "setup.py")) as file:
        flags = eval("(%s)" % re.search(r"FLAGS = \((.*?)\)\.split", file.read(), re.S).group(1)).split()
    rooms = [os.path.join(SOURCE, "src", room) for room in ("probe", "wire", "core")]
    sources = [os.path.join(room, name) for room in rooms for name in sorted(os.listdir(room)) if name.endswith(".c")]
    subprocess.run(["cc", *flags, '-DLOCKSTEP_VERSION="0"', "-I" + os.path.join(SOURCE, "src"),
                    "-I" + os.path.join(SOURCE, "include"), "-Wl,--version-script=" + os.path.join(rooms[0], "liblockstep.map"),
                    "-o", out, *sources], check=True)
    return out


class Check:
    def __init__(self, place, lib, until):
        self.place, self.until = place, until
        self.env = {"CASE_BACKEND": "nccl", "ours": {"LOCKSTEP_LIB": lib, "NCCL_PROFILER_PLUGIN": lib}}

    def run(self, number, case):
        if time.monotonic() > self.until:
            return case, None
        place = os.path.join(self.place, str(number))
        compared = exits.Compared(place, case, self.env)
        shutil.rmtree(place, ignore_errors=True)
        return case, compared


def usual(done, compared):
    """How bare ranks were seen to end with other operations, where the operation does not decide it."""
    if compared.case[1] not in ABRUPT:
        return set()
    return {(exits.OWN[compared.case[1]], "", exits.LOST)}.union(
        *(other.bare.seen for other in done if other.case[1] == compared.case[1]))


def aborted(ways):
    return any(way[0] in exits.CRASHES for way in ways.seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", help="liblockstep.so.0; compiled where none is given")
    parser.add_argument("--all", action="store_true", help="every operation with every way to end")
    parser.add_argument("--jobs", type=int, default=6, help="cases at a time")
    parser.add_argument("--seconds", type=float, default=400, help="after which no case is begun")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        print("skipped: no GPU", file=sys.stderr)
        return 77
    print("torch %s, NCCL %s, %s" % (torch.__version__, ".".join(map(str, torch.cuda.nccl.version())),
                                     torch.cuda.get_device_name(0)), flush=True)
    exits.allow_dumps()
    exits.TRIES = 4
    twice.SECONDS = 60
    done, missing = [], 0
    with tempfile.TemporaryDirectory() as place, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        check = Check(place, library(options.lib, place), time.monotonic() + options.seconds)
        cases = exits.ALL if options.all else SOME
        for case, compared in pool.map(check.run, range(len(cases)), cases):
            if compared is None:
                missing += 1
                print("%-22s %-15s not run: no time left" % case, flush=True)
                continue
            done.append(compared)
            print("%-22s %-15s %-9s without %s, attached %s" % (
                *case, "same" if compared.same else "other", *compared.statuses), flush=True)
    differ = [compared for compared in done if compared.other - usual(done, compared)]
    for compared in differ:
        print("DIFFERS: %s, %s\n%s" % (*compared.case, compared.difference()))
    for end in ABRUPT:
        some = [compared for compared in done if compared.case[1] == end]
        print("%s: NCCL aborted a rank that had lost the other in %d of %d cases without lockstep, in %d attached" % (
            end, sum(aborted(compared.bare) for compared in some), len(some),
            sum(aborted(compared.ours) for compared in some)))
    print("%d cases: %d alike, %d differ, %d not run" % (
        len(cases), len(done) - len(differ), len(differ), missing))
    return 1 if differ or missing == len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
