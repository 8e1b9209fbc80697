#!/bin/sh
# Logs of runs that are over become short; what was said about them stays.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

dir=$LOCKSTEP_STATE/runs/old
size() { stat -c %s "$dir/log.lsf"; }
number() { sed -n "s/^ *\"$1\": *\([0-9]*\),\{0,1\}$/\1/p" "$2" | tail -n 1; }

"$LOCKSTEP" run -n 4 --nodes 2 --name old -- "$LOCKSTEP" trainer --steps 200 --step-ms 2 --host-work-ms 0 \
    >"$TAP/out" 2>"$TAP/err" </dev/null
tap_result $? "a run"
"$LOCKSTEP" why --json old >"$TAP/before" 2>/dev/null
before=$(size)
ok "a young run is left alone" "$LOCKSTEP" control --tidy
has "by default" '^1 runs, 0 compacted' "$TAP/out"
[ "$(size)" = "$before" ] && [ -d "$dir/spool" ]
tap_result $? "in every byte"
touch -d '40 days ago' "$dir/log.lsf"
ok "an old one" "$LOCKSTEP" control --tidy
has "is compacted" '^1 runs, 1 compacted' "$TAP/out"
after=$(size)
echo "# $before bytes before, $after now"
[ "$((after * 2))" -lt "$before" ]
tap_result $? "to less than half ($before to $after bytes)"
[ ! -e "$dir/spool" ] && [ ! -e "$dir/log.lsf.compact" ]
tap_result $? "its spools are gone, and nothing else lies about"
"$LOCKSTEP" why --json old >"$TAP/out" 2>"$TAP/err"
sed -n '/"verdicts"/,/"counts"/p' "$TAP/before" >"$TAP/said-before"
sed -n '/"verdicts"/,/"counts"/p' "$TAP/out" >"$TAP/said-after"
cmp -s "$TAP/said-before" "$TAP/said-after"
tap_result $? "verdicts, ledger and restarts are told as before"
[ "$(number steps "$TAP/out")" = 800 ] && [ "$(number lost_frames "$TAP/out")" = 0 ]
tap_result $? "every step is still counted, and none is called lost"
"$LOCKSTEP" why --replay old >"$TAP/out" 2>"$TAP/err"
[ $? != 0 ]
tap_result $? "it cannot be judged again"
has "and says why" 'was compacted, so it cannot be replayed' "$TAP/err"
ok "twice" "$LOCKSTEP" control --tidy --keep-age 0 --keep-mb 1
has "changes nothing more" '^1 runs, 0 compacted' "$TAP/out"
[ "$(size)" = "$after" ]
tap_result $? "not a byte"
ok "its index" "$LOCKSTEP" control --reindex
has "has the merged steps" '^1 runs, [0-9]+ frames, [45] steps$' "$TAP/out"

# A run that goes on is nobody's to shorten.
"$LOCKSTEP" run -n 2 --name live -- sleep 60 >/dev/null 2>&1 </dev/null &
run=$!
await test -s "$LOCKSTEP_STATE/runs/live/log.lsf"
touch -d '40 days ago' "$LOCKSTEP_STATE/runs/live/log.lsf"
ok "a run that goes on" "$LOCKSTEP" control --tidy --keep-age 1s
has "is left alone" '^2 runs, 0 compacted' "$TAP/out"
kill $run
wait $run
done_testing
