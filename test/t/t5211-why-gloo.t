#!/bin/sh
# Flight-recorder dumps and stacks of real gloo jobs: all of them, those of one node, that of one rank.  Rank 2 is the culprit
# (test/recorded/README.md); nobody is named where the files cannot tell.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
sets=$SOURCE/test/recorded/gloo-2.14

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
for fault in hang stopped gil; do
    why "$fault, all dumps" hang "[2]" "$sets/$fault/"fr_trace*
    why "$fault, of the other node" hang "[]" "$sets/$fault/"fr_trace_rank_[01].json
    why "$fault, of one rank" hang "[]" "$sets/$fault/fr_trace_rank_0.json"
done
why "hang, of its node" hang "[2]" "$sets/hang/"fr_trace_rank_[23].json
why "gil, of its node" hang "[2]" "$sets/gil/"fr_trace_rank_[23].json
why "stopped, of its node" hang "[]" "$sets/stopped/"fr_trace_rank_3.json
why "hang, its own dump alone" none "[]" "$sets/hang/fr_trace_rank_2.json"
for fault in skipped order; do
    why "$fault, all dumps" desync "[2]" "$sets/$fault/"fr_trace*
    why "$fault, of the other node" hang "[]" "$sets/$fault/"fr_trace_rank_[01].json
    why "$fault, of its node" desync "[]" "$sets/$fault/"fr_trace_rank_[23].json
    why "$fault, of one rank" hang "[]" "$sets/$fault/fr_trace_rank_0.json"
done
why "healthy, all dumps" none "[]" "$sets/healthy/"fr_trace*
exits 3 "one dump of a healthy job is not enough to say so" "$LOCKSTEP" why "$sets/healthy/fr_trace_rank_3.json"
why "hang, stacks alone" hang "[2]" "$sets/hang/"stack*
why "healthy, stacks alone" none "[]" "$sets/healthy/"stack*
why "hang, the stacks that torch.distributed.debug collects" hang "[2]" "$sets/debug-hang"
why "stopped, the same" hang "[2]" "$sets/debug-stopped"
has "that it does not answer is the reason" 'did not answer' "$TAP/out"
done_testing
