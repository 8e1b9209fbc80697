#!/bin/sh
# What the job itself waits for: batches, a checkpoint, the network; and pauses that are no fault.
. "$SOURCE/test/t/tap.sh"

said() # KIND LAYER RANKS: whether a verdict says that
{
    python3 -c '
import json, sys
for verdict in json.load(open(sys.argv[1]))["verdicts"]:
    if [verdict["kind"], verdict["layer"], json.dumps(verdict["ranks"])] == sys.argv[2:5]:
        sys.exit(0 if verdict["because"] and verdict["ruled_out"] else 1)
sys.exit(1)' "$TAP/answer" "$1" "$2" "$3"
    tap_result $? "says $1, $2, ranks $3"
}

never() # WHAT: no verdict of a stall is there; a busy machine may have its own
{
    python3 -c '
import json, sys
bad = [verdict for verdict in json.load(open(sys.argv[1]))["verdicts"] if "stall" in verdict["kind"]]
sys.exit(1 if bad else 0)' "$TAP/answer"
    tap_result $? "says nothing about $1"
}

demo() # NAME OPTION...: $TAP/answer is its JSON; the log says the same again
{
    demo_name=$1
    shift
    ok "$demo_name" timeout -k 5 100 "$LOCKSTEP" demo --json --name "$demo_name" "$@"
    cp "$TAP/out" "$TAP/answer"
    ok "... and its log says it again" "$LOCKSTEP" why --replay "$demo_name"
}

exits 2 "one node has no fabric" "$LOCKSTEP" demo --fault slow-fabric
has "that is said" "needs 2 nodes or more" "$TAP/err"

demo input --ranks 4 --steps 40 --step-ms 60 --fault slow-input:ms=40,step=20
said input-stall data "[]"
demo loader --ranks 4 --steps 40 --step-ms 60 --fault slow-input:rank=2,ms=40,step=20
said straggler data "[2]"
demo checkpoint --ranks 4 --steps 44 --step-ms 60 --checkpoint-every 8 \
    --fault slow-checkpoint:factor=40,step=24
said checkpoint-stall checkpoint "[]"
demo fabric --ranks 4 --nodes 2 --steps 40 --step-ms 60 --fault slow-fabric:factor=20,step=20
said sync-stall fabric "[]"
demo nic --ranks 4 --nodes 4 --layout pp=4 --steps 40 --step-ms 80 --fault slow-nic:node=1,factor=30,step=20
said sync-stall nic "[1]"

demo planned --ranks 4 --steps 40 --step-ms 60 --checkpoint-every 8 --fault eval:ms=300,step=20 \
    --fault compile:ms=300,step=25 --fault slow-start:ms=500
never "planned checkpoints, an evaluation, a compile and a slow start"
done_testing
