#!/bin/sh
# What the job itself waits for: batches, a checkpoint, the network; and pauses that are no fault.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

said() # KIND LAYER RANKS: whether a verdict says that
{
    python3 -c '
import json, sys
for verdict in json.load(open(sys.argv[1]))["verdicts"]:
    if [verdict["kind"], verdict["layer"], json.dumps(verdict["ranks"])] == sys.argv[2:5]:
        sys.exit(0 if verdict["because"] and verdict["ruled_out"] else 1)
sys.exit(1)' "$TAP/answer" "$1" "$2" "$3"
    timed_result $? "says $1, $2, ranks $3"
}

never() # WHAT: no verdict of a stall is there; a busy machine may have its own
{
    python3 -c '
import json, sys
bad = [verdict for verdict in json.load(open(sys.argv[1]))["verdicts"] if "stall" in verdict["kind"]]
sys.exit(1 if bad else 0)' "$TAP/answer"
    timed_result $? "says nothing about $1"
}

demo() # NAME OPTION...: $TAP/answer is its JSON; the log says the same again
{
    demo_name=$1
    shift
    timed_ok "$demo_name" 100 "$LOCKSTEP" demo --json --name "$demo_name" "$@" || return
    cp "$TAP/out" "$TAP/answer"
    ok "... and its log says it again" "$LOCKSTEP" why --replay "$demo_name"
}

demo_says() # KIND LAYER RANKS NAME OPTION...: a demo, and what must be said of it
{
    demo_kind=$1 demo_layer=$2 demo_ranks=$3
    shift 3
    demo "$@" || return
    said "$demo_kind" "$demo_layer" "$demo_ranks"
}

planned()
{
    demo planned --ranks 4 --steps 40 --step-ms 60 --checkpoint-every 8 --fault eval:ms=300,step=20 \
        --fault compile:ms=300,step=25 --fault slow-start:ms=500 || return
    never "planned checkpoints, an evaluation, a compile and a slow start"
}

exits 2 "one node has no fabric" "$LOCKSTEP" demo --fault slow-fabric
has "that is said" "needs 2 nodes or more" "$TAP/err"

timed demo_says input-stall data "[]" input --ranks 4 --steps 40 --step-ms 60 --fault slow-input:ms=40,step=20
timed demo_says straggler data "[2]" loader --ranks 4 --steps 40 --step-ms 60 --fault slow-input:rank=2,ms=40,step=20
timed demo_says checkpoint-stall checkpoint "[]" checkpoint --ranks 4 --steps 44 --step-ms 60 --checkpoint-every 8 \
    --fault slow-checkpoint:factor=40,step=24
timed demo_says sync-stall fabric "[]" fabric \
    --ranks 4 --nodes 2 --steps 40 --step-ms 60 --fault slow-fabric:factor=20,step=20
timed demo_says sync-stall nic "[1]" nic \
    --ranks 4 --nodes 4 --layout pp=4 --steps 40 --step-ms 80 --fault slow-nic:node=1,factor=30,step=20
timed planned
done_testing
