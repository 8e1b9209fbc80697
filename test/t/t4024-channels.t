#!/bin/sh
# Communicators that go on with fewer channels: it is said of a slow one, from a step on and since a restart.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

said() # LAYER CAUSE: whether a stall says that, with its evidence
{
    python3 -c '
import json, sys
for one in json.load(open(sys.argv[1]))["verdicts"]:
    told = [line for line in one["because"] if "DOUBLING/SOCKET" in line["what"]]
    if told and [one["kind"], one["layer"], one["cause"], one["ranks"]] == ["sync-stall", *sys.argv[2:4], []]:
        sys.exit(0)
    print("#", one["kind"], one["layer"], one["ranks"], one["cause"])
sys.exit(1)' "$TAP/answer" "$1" "$2"
    timed_result $? "says $1: $2"
}

demo() # NAME OPTION...: $TAP/answer is its JSON; the log says the same again
{
    demo_name=$1
    shift
    timed_ok "$demo_name" 100 "$LOCKSTEP" demo --json --name "$demo_name" --ranks 4 --step-ms 80 "$@" || return
    cp "$TAP/out" "$TAP/answer"
    ok "... and its log says it again" "$LOCKSTEP" why --replay "$demo_name"
    has "... to the byte" "byte-equal" "$TAP/out"
}

demo_says() # LAYER CAUSE NAME OPTION...: a demo, and what must be said of it
{
    demo_layer=$1 demo_cause=$2
    shift 2
    demo "$@" || return
    said "$demo_layer" "$demo_cause"
}

fabric()
{
    demo fabric --nodes 2 --steps 40 --fault slow-fabric:factor=20,step=20 || return
    grep -q "all transfers between nodes are slow" "$TAP/answer"
    timed_result $? "a slow fabric is one as ever"
    lacks "... without a word about channels" "\"what\":.*channels" "$TAP/answer"
}

exits 2 "only some communicators are known" "$LOCKSTEP" demo --fault few-channels:comm=ep
has "that is said" "comm must be dp or tp" "$TAP/err"

timed demo_says fabric "fewer channels than before: 2, were 16" later \
    --nodes 2 --steps 40 --fault few-channels:factor=8,step=20
timed demo_says fabric "fewer channels than before the restart: 2, were 16" restarted \
    --nodes 2 --steps 50 --checkpoint-every 5 --fault kill:rank=1,step=26 \
    --fault few-channels:attempt=1,factor=8
timed demo_says unknown "fewer channels than before: 4, were 16" inside \
    --layout tp=2 --steps 40 --fault few-channels:comm=tp,rank=3,factor=4,step=20

# All are told how they are moved, and that alone is nothing to speak of: the network is slow for another reason.
timed fabric
done_testing
