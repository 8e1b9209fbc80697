#!/bin/sh
# Flight-recorder dumps that NCCL really wrote while four ranks hung: all of them, those of one node, that of one rank.  Rank 2
# is the culprit (test/recorded/README.md); nobody is named where the files cannot tell.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
sets=$SOURCE/test/recorded/nccl-2.28/faults

why() # TEXT KIND RANKS FILE...
{
    text=$1 kind=$2 ranks=$3
    shift 3
    "$LOCKSTEP" why --json "$@" >"$TAP/out" 2>"$TAP/err"
    python3 -c '
import json, sys
answer = json.load(open(sys.argv[1]))
got = [(v["kind"], v["ranks"]) for v in answer["verdicts"]]
print(got)
sys.exit(got[:1] != ([] if sys.argv[2] == "none" else [(sys.argv[2], json.loads(sys.argv[3]))]))' \
        "$TAP/out" "$kind" "$ranks" >"$TAP/err" 2>&1
    tap_result $? "$text: $kind $ranks"
}

command -v python3 >/dev/null || skip_all "no python3"
for fault in stopped gil; do
    why "$fault, all dumps" hang "[2]" "$sets/$fault/"nccl_trace*
done
for fault in skipped order; do
    why "$fault, all dumps" desync "[2]" "$sets/$fault/"nccl_trace*
done
why "device, all dumps are alike" hang "[]" "$sets/device/"nccl_trace*
for fault in stopped gil skipped order device; do
    why "$fault, of the other node" hang "[]" "$sets/$fault/"nccl_trace_rank_[01]
    why "$fault, of one rank" hang "[]" "$sets/$fault/nccl_trace_rank_0"
done
why "gil, of its node" hang "[2]" "$sets/gil/"nccl_trace_rank_[23]
why "stopped, of its node" hang "[]" "$sets/stopped/nccl_trace_rank_3"
why "skipped, of its node" desync "[]" "$sets/skipped/"nccl_trace_rank_[23]
why "order, of its node: rank 3 may wait for ranks that left nothing" hang "[]" "$sets/order/"nccl_trace_rank_[23]
why "healthy, all dumps" none "[]" "$sets/healthy/"nccl_trace*
why "stopped, logs alone: numbers of several groups are not compared" hang "[2]" "$sets/stopped/"rank*.log
done_testing
