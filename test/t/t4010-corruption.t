#!/bin/sh
# Real memory goes wrong in a real run: who, since when, and the same words again from the log.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

# said RANKS LAYER: one verdict is about wrong numbers, and says that (a busy machine may give others)
said()
{
    python3 -c '
import json, sys
said = [v for v in json.load(open(sys.argv[1]))["verdicts"]
        if v["kind"] == "corruption"]
sys.exit([(v["ranks"], v["layer"]) for v in said] != [(json.loads(sys.argv[2]), sys.argv[3])])' "$TAP/out" "$1" "$2"
    tap_result $? "corruption of ranks $1, layer $2"
}

demo() # NAME FAULT OPTION...
{
    demo_name=$1 demo_fault=$2
    shift 2
    timed_ok "$demo_name" 60 "$LOCKSTEP" demo --json --ranks 4 --steps 34 --step-ms 60 \
        --host-work-ms 1 --checkpoint-every 0 --name "$demo_name" --fault "$demo_fault" "$@" || return
}

flip()
{
    demo flip bit-flip:rank=1,step=12 || return
    said "[1]" gpu-memory
    has "in the step in which it was" '"since_step": 12' "$TAP/out"
    has "with the last clean one" 'the last clean step is 11' "$TAP/out"
    ok "judged again it is the same" "$LOCKSTEP" why --replay flip
    has "byte for byte" "byte-equal" "$TAP/out"
}
timed flip

two()
{
    demo two bit-flip:rank=3,step=12 --layout tp=2,dp=2 || return
    said "[1, 3]" gpu-memory
    has "of two replicas both, and it says so" 'it is unknown which is right' "$TAP/out"
}
timed two

nan()
{
    demo nan nan:rank=2,step=12 --layout pp=2,dp=2 || return
    said "[2]" unknown
    has "where it began, not where it came to" 'not finite in step 12 on 1 of 4 ranks' "$TAP/out"
}
timed nan

still()
{
    demo still frozen-parameters:step=12 || return
    said "[]" user-code
    ok "it says the same again" "$LOCKSTEP" why --replay still
}
timed still
done_testing
