#!/bin/sh
# A rank that somebody stopped: what a user sees while the job stands still, that the command in the verdict lets it go on, and that
# Ctrl-C leaves verdict and ledger as they were.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

begin() # NAME: two ranks, of which rank 1 is stopped after some steps
{
    "$LOCKSTEP" run -q -n 2 --grace 1s --name "$1" -- "$LOCKSTEP" trainer --steps 120 --step-ms 100 \
        >"$TAP/$1.out" 2>&1 &
    launcher=$!
    await grep -q '"pid"' "$LOCKSTEP_STATE/runs/$1/run.json"
    await began "$1" || return
    stopped=$(rank_pid "$1" 1)
    kill -STOP "$stopped"
}

began() # NAME: twenty steps are over
{
    "$LOCKSTEP" why --json "$1" >"$TAP/answer"
    [ "$(sed -n 's/^ *"steps": *\([0-9]*\),\{0,1\}$/\1/p' "$TAP/answer" | tail -n 1)" -ge 20 ]
}

rank_pid() # NAME RANK
{
    for pid in $(pgrep -f "trainer --steps 120"); do
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null >"$TAP/environ" || continue
        grep -qx "RANK=$2" "$TAP/environ" && grep -qx "LOCKSTEP_RUN=$1" "$TAP/environ" && echo "$pid" && break
    done
}

hangs() # NAME
{
    "$LOCKSTEP" why "$1" >"$TAP/out"
    grep -q '^hang: rank 1' "$TAP/out"
}

ledger_hangs() # NAME: the ledger is written every few seconds
{
    "$LOCKSTEP" why "$1" >"$TAP/out"
    grep -Eq '^ *hang +[1-9][0-9.]* +[4-9][0-9]\.' "$TAP/out"
}

begin goes-on
ok "the hang is found" await hangs goes-on
has "with the command that lets the process go on" "kill -CONT $stopped'" "$TAP/out"
has "which the advice means" 'to do: .*kill -CONT' "$TAP/out"
ok "the ledger shows the hang while it lasts" await ledger_hangs goes-on
kill -CONT "$stopped"
ok "the job goes on and ends" wait "$launcher"
"$LOCKSTEP" why goes-on >"$TAP/out"
has "its status is 0" 'ended with status 0' "$TAP/out"
has "the time in between stays hang" '^ *hang +[1-9][0-9.]* ' "$TAP/out"

begin given-up
ok "another one is found" await hangs given-up
kill -INT "$launcher"
wait "$launcher"
"$LOCKSTEP" why given-up >"$TAP/out"
has "after Ctrl-C it is still the rank that was stopped" '^hang: rank 1 .*stopped by a signal' "$TAP/out"
has "and its time is hang" '^ *hang +[1-9][0-9.]* +[3-9][0-9]\.' "$TAP/out"
lacks "not lost work" '^ *(lost|unattributed) +[0-9.]+ +[1-9][0-9]\.' "$TAP/out"
done_testing
