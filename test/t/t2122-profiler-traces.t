#!/bin/sh
# Profiler traces: a part of the ranks is said to be one, devices that wait for their host are a finding, and why and whatif
# agree on who is slow.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

make() # DIR WORLD RANKS GAP-US LOADER-US: a step of 1000 us in which the device works for 1000 - GAP
{
    mkdir -p "$1"
    python3 - "$@" <<'END'
import json, sys
out, world, ranks, gap, loader = sys.argv[1], *map(int, sys.argv[2:])
for rank in range(ranks):
    events = []
    for step in range(5):
        at = 1000.0 * step + 77 * rank
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at,
                       "dur": 1000, "args": {}})
        if loader:
            events.append({"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": at, "dur": loader,
                           "name": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "args": {}})
        events.append({"ph": "X", "cat": "kernel", "name": "sm90_gemm", "pid": 0, "tid": 7, "ts": at + gap,
                       "dur": 900 - gap, "args": {"stream": 7}})
        events.append({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)", "pid": 0,
                       "tid": 20, "ts": at + 900, "dur": 100,
                       "args": {"Collective name": "allreduce", "Process Group Name": "0"}})
    with open(f"{out}/host.{rank}.pt.trace.json", "w") as file:
        json.dump({"distributedInfo": {"rank": rank, "world_size": world}, "traceEvents": events}, file)
END
}

make "$TAP/bound" 4 4 820 0
exits 1 "devices that wait for their host are a finding" "$LOCKSTEP" why "$TAP/bound"
has "with the share of the step" "device waits for the host 82 % of the step" "$TAP/out"
make "$TAP/loader" 4 4 820 800
exits 1 "and so are those that wait for data" "$LOCKSTEP" why --json "$TAP/loader"
has "which is the layer" '"layer": *"data"' "$TAP/out"
make "$TAP/busy" 4 4 0 0
exits 0 "devices that are busy are well" "$LOCKSTEP" why "$TAP/busy"
make "$TAP/part" 8 4 0 0
exits 3 "a part of the ranks does not show that the job is well" "$LOCKSTEP" why "$TAP/part"
make "$TAP/part-bound" 8 4 820 0
exits 1 "what a part of the ranks shows is a finding" "$LOCKSTEP" why "$TAP/part-bound"
has "which says that it is a part" "traces of 4 of 8 ranks" "$TAP/out"

mkdir "$TAP/slow"
python3 "$SOURCE/test/t/kinetolab.py" "$TAP/slow" 2
"$LOCKSTEP" why --json "$TAP/slow" >"$TAP/why" 2>"$TAP/err"
"$LOCKSTEP" whatif --json "$TAP/slow" >"$TAP/whatif" 2>>"$TAP/err"
ok "why names the slow rank" python3 -c '
import json, sys
sys.exit(json.load(open(sys.argv[1]))["verdicts"][0]["ranks"] != [2])' "$TAP/why"
ok "whatif has the same one" python3 -c '
import json, sys
share = json.load(open(sys.argv[1]))["S_rank"]
sys.exit(max(share, key=share.get) != "2")' "$TAP/whatif"
done_testing
