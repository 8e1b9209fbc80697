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

# Between two attempts the last image stays in memory: the second one restores from there.
cat >"$TAP/job" <<'JOB'
if [ "$LOCKSTEP_RESTART" = 0 ]; then
    "$1" "$2" steps=1000 mb=8 wait=verified pause=20 >"$3" &
    until grep -q '^verified 3$' "$3"; do sleep 0.05; done # looks again
    kill -9 $!
    until [ -s "$2/.held-rank-00000" ]; do sleep 0.05; done # looks again
    exit 1
fi
exec "$1" "$2" steps=$(($(sed -n 's/^verified //p' "$3" | tail -n 1) + 3)) mb=8 wait=written
JOB
"$LOCKSTEP" run -n 1 --max-restarts 1 -- sh "$TAP/job" "$train" "$TAP/held" "$TAP/first" >"$TAP/out" 2>&1
is "a job that is started again ends well" $? 0
has "it restored from the memory of its writer" 'rank 0. memory [1-9]' "$TAP/out"
ok "which then gave it back" [ ! -e "$TAP/held/.held-rank-00000" ]
"$LOCKSTEP" run -n 1 --max-restarts 1 -- sh -c '"$1" "$2" steps=1000 mb=2 wait=verified >"$3" &
until grep -q "^verified" "$3"; do sleep 0.05; done # looks again
kill -9 $!
until [ -s "$2/.held-rank-00000" ]; do sleep 0.05; done # looks again
: >"$3"
exit 1' sh "$train" "$TAP/lost" "$TAP/second" >"$TAP/out" 2>&1
is "a job that fails for good" $? 1
ok "leaves no memory behind" [ ! -e "$TAP/lost/.held-rank-00000" ]
done_testing
