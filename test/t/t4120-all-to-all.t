#!/bin/sh
# A job whose only communication is NCCL's all-to-all: its times are not known, only its launches are.  A run in which
# nothing advances is never healthy, and where the launches show who has not come, that rank is named.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

job=$BUILD/test/nccl-job
cat >"$TAP/lockstep.yaml" <<'END'
judge:
  hang.least-limit: 4
END
LOCKSTEP_CONFIG=$TAP/lockstep.yaml
export LOCKSTEP_CONFIG

ok "a healthy job" "$LOCKSTEP" run --quiet -n 3 --name healthy -- "$job" "$TAP/healthy.job" none 40
exits 0 "has no fault" "$LOCKSTEP" why healthy
has "and what is not known of it is listed" '120 steps have operations without times' "$TAP/out"

ended() # RUN: a verdict on a hang is there
{
    "$LOCKSTEP" why "$1" | grep -q '^hang'
}

# NAME MODE SECONDS: starts it, waits for the verdict, ends it; its answer is in $TAP/out
fault()
{
    "$LOCKSTEP" run --quiet --on-hang alert -n 3 --name "$1" -- "$job" "$TAP/$1.job" "$2" 40 >"$TAP/run" 2>&1 &
    fault_run=$!
    await ended "$1"
    timed_result $? "$2: the hang is reported" || { kill $fault_run; wait $fault_run; return 1; }
    kill $fault_run
    wait $fault_run
    exits 1 "$2: why" "$LOCKSTEP" why "$1"
}

stopped()
{
    fault stopped stop || return
    has "a rank that is stopped is named, though no operation has a time" '^hang: rank 1 .*stopped by a signal' "$TAP/out"
}
timed stopped

asleep()
{
    fault asleep host || return
    has "a rank that has launched less is named" '^hang: rank 1 ' "$TAP/out"
    has "with what it has not launched" 'rank 1 has not entered (send|receive) 40 of experts' "$TAP/out"
}
timed asleep

# All hosts spin in a synchronise: their stacks, read after nine seconds, show that they wait and do not compute.
spinning()
{
    fault spinning device || return
    has "hosts that wait for their devices name nobody" '^hang: the job does not advance .*all hosts wait for their devices' "$TAP/out"
}
if ! "$LOCKSTEP" doctor 2>/dev/null | grep -q '^ok *stacks'; then
    skip "hosts that wait for their devices" "no native stacks on this machine"
else
    timed spinning
fi
done_testing
