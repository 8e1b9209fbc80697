#!/bin/sh
# Workers that end and begin again on purpose, within the processes that were launched, with fewer ranks and then with all
# of them, as torchrun does when members come and go: nothing is said of it, its time is restart and spare, and what goes
# wrong afterwards is found.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

kinds() # of the verdicts in $TAP/out, those that speak of an end or a stop
{
    sed -n 's/^ *"kind": *"\(hang\|desync\|crash\|startup-stall\|corruption\)".*/\1/p' "$TAP/out" | sort | tr '\n' ' '
}

anew()
{
    timed_ok "a training that is started anew twice" 100 "$LOCKSTEP" demo --json --name=elastic --ranks=4 --steps=30 \
        --step-ms=40 --checkpoint-every=5 --fault=elastic:step=8,steps=8,count=1,ms=800 || return
    [ -z "$(kinds)" ]
    timed_result $? "nothing is said of that"
    has "it goes on from where it was, twice" "restored from checkpoint of step 1[0-9]$" \
        "$LOCKSTEP_STATE/runs/elastic/out/rank-0.log"
    has "and comes to its end" "^done after 30 steps" "$LOCKSTEP_STATE/runs/elastic/out/rank-0.log"
    ok "its log, judged again" "$LOCKSTEP" why --replay "$LOCKSTEP_STATE/runs/elastic"
    has "says the same" "byte-equal" "$TAP/out"
    "$LOCKSTEP" why --json "$LOCKSTEP_STATE/runs/elastic" >"$TAP/out" 2>"$TAP/err"
    has "one attempt" '"restarts": \[$' "$TAP/out"
    python3 -c '
import json, sys
bucket = json.load(open(sys.argv[1]))["ledger"]["buckets"]
assert bucket["restart"] > 3 and bucket["spare"] > 0.8 and bucket["hang"] == 0 and bucket["lost"] == 0, bucket
' "$TAP/out" 2>"$TAP/err"
    timed_result $? "pauses are restart, and who is not in the world is spare"
}

fails_later()
{
    "$LOCKSTEP" demo --json --name=killed --ranks=4 --steps=30 --step-ms=40 --checkpoint-every=5 \
        --fault=elastic:step=8,ms=400 --fault=exit:rank=2,step=20 >"$TAP/out" 2>"$TAP/err"
    [ "$(kinds)" = "crash " ]
    timed_result $? "a worker that fails after that is found"
}
timed anew
timed fails_later
done_testing
