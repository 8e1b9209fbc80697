#!/bin/sh
# Index and matrices are made from the logs, again and again, whatever became of them.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

ok "a run" "$LOCKSTEP" run -n 4 --nodes 2 --name one -- "$LOCKSTEP" trainer --steps 30 --step-ms 5 --host-work-ms 0
ok "its index is made" "$LOCKSTEP" control --reindex
has "of all its steps" '^1 runs, [0-9]+ frames, 30 steps$' "$TAP/out"
cp "$TAP/out" "$TAP/first"
[ -s "$LOCKSTEP_STATE/index.sqlite" ] && [ -s "$LOCKSTEP_STATE/runs/one/matrix.lsm" ]
tap_result $? "index and matrix are there"
[ "$(stat -c %a "$LOCKSTEP_STATE/index.sqlite")" = 600 ] && [ "$(stat -c %a "$LOCKSTEP_STATE/runs/one/matrix.lsm")" = 600 ]
tap_result $? "for their owner only"

head -c 4096 /dev/urandom >"$LOCKSTEP_STATE/index.sqlite"
rm "$LOCKSTEP_STATE/runs/one/matrix.lsm"
ok "a ruined one is made anew" "$LOCKSTEP" control --reindex
cmp -s "$TAP/first" "$TAP/out"
tap_result $? "and says the same"
[ -s "$LOCKSTEP_STATE/runs/one/matrix.lsm" ]
tap_result $? "with the matrix"

ok "one run alone" "$LOCKSTEP" control --reindex --run-dir "$LOCKSTEP_STATE/runs/one"
cmp -s "$TAP/first" "$TAP/out"
tap_result $? "says the same"

printf 'bent' | dd of="$LOCKSTEP_STATE/runs/one/log.lsf" bs=1 seek=4000 conv=notrunc 2>/dev/null
ok "a damaged log is read around the damage" "$LOCKSTEP" control --reindex
has "which is said" 'run one: skipped [0-9]+ damaged bytes of its log' "$TAP/err"
timeout 90 "$LOCKSTEP" control --run-dir "$LOCKSTEP_STATE/runs/one" --tick 10ms 2>"$TAP/err" &
control=$!
await grep -q 'damaged at offset' "$TAP/err"
kill $control
wait $control
has "a controller that goes on with it names the place" 'log.lsf: damaged at offset [0-9]+, skipped [0-9]+ bytes' \
    "$TAP/err"
exits 2 "a directory that is not there" "$LOCKSTEP" control --reindex --state "$TAP/none"
done_testing
