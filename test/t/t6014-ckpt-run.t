#!/bin/sh
# The end of a job does not cost it the last checkpoint: the writer gets the time that it needs.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
export LOCKSTEP_STATE="$TAP/state"

"$LOCKSTEP" run --grace 1s -n 1 -- "$train" "$TAP/end" steps=1 mb=20 rate=6 wait=none >"$TAP/out" 2>&1
is "a job that ends before its last checkpoint is written" "$? $(grep -c 'rank 0. saved 1' "$TAP/out")" '0 1'
ok "leaves it complete, although that took longer than the grace" "$LOCKSTEP" ckpt verify "$TAP/end"
has "with the last step" '^step 1  verified' "$TAP/out"

# A rank that dies takes the others with it, not the writer.
"$LOCKSTEP" run --grace 1s -n 1 -- sh -c '"$1" "$2" steps=1 mb=20 rate=6 wait=none; kill -9 $$' sh "$train" "$TAP/crash" >"$TAP/out" 2>&1
is "a rank that is killed after a save" "$? $(grep -c 'rank 0. saved 1' "$TAP/out")" '137 1'
ok "has its checkpoint" "$LOCKSTEP" ckpt verify "$TAP/crash"
done_testing
