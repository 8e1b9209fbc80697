#!/bin/sh
# A rank that does not save a step: the others' waits end with the reason, and nothing waits for ever.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train

restore=none
two() # DIR JOB, options of rank 1; rank 0 saves every step and waits without a limit
{
    dir=$1 job=$2
    shift 2
    "$train" "$dir" rank=1 world=2 job="$job" restore="$restore" "$@" >"$TAP/out1" 2>"$TAP/err1" &
    timeout 60 "$train" "$dir" rank=0 world=2 job="$job" steps=2 commit=2 patient=1 restore="$restore" >"$TAP/out0" 2>"$TAP/err0"
    status=$?
    wait
}

# It goes on to the next step, so it does not come back to this one.
two "$TAP/cancels" 5 steps=2 cancels=1
is "a rank cancels its save: the other one's wait ends" $status 0
has "with the rank and its reason" '^failed 1: step 1: rank 1 could not save it: a tensor changed' "$TAP/out0"
has "the next step is saved by both" '^written 2$' "$TAP/out1"
is "what was written of it is gone" "$(find "$TAP/cancels" -path '*step-1.*' -name '*.safetensors')" ""
ok "the point of the next step is right" "$LOCKSTEP" ckpt verify --newest "$TAP/cancels"

# It ends, or waits for nothing more: the other one learns it soon.
two "$TAP/last" 5 steps=1 cancels=1
has "a rank that ends after a cancelled save tells why" '^failed 1: step 1: rank 1 could not save it: a tensor changed' "$TAP/out0"
two "$TAP/idle" 5 steps=2 cancels=1 absent=2 commit=1 pause=4000
has "so does one that trains on without a save" '^failed 1: step 1: rank 1 could not save it: a tensor changed' "$TAP/out0"
has "and one that never saves is named when the time is over" '^failed 2: step 2: rank 1 did not save it within [0-9]* s' "$TAP/out0"

# It comes back to the step.
two "$TAP/again" 5 steps=2 cancels=1 again=1 commit=2
is "a rank that saves the step after all fails nobody" "$(grep -c '^written' "$TAP/out0") $(grep -c '^failed' "$TAP/out0" "$TAP/out1" | cut -d: -f2 | tr '\n' ' ')" "2 0 0 "
ok "and its points are right" "$LOCKSTEP" ckpt verify "$TAP/again"

# A mark outlasts the start that left it only until the next one, also where that has the same number.
two "$TAP/restart" 5 steps=1 cancels=1
has "a start leaves the marks of a skipped step" '^failed 1: step 1: rank 1 could not save it' "$TAP/out0"
is "of both ranks" "$(find "$TAP/restart" -name '*.failed' | wc -l)" 2
restore= # so they meet before they train
two "$TAP/restart" 5 steps=2 commit=2 pause=500
is "the next start saves that step" "$(grep -c '^written' "$TAP/out0") $(grep -c '^failed' "$TAP/out0" "$TAP/out1" | cut -d: -f2 | tr '\n' ' ')" "2 0 0 "
done_testing
