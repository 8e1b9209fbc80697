#!/bin/sh
# The clock of the day jumps by hours, forwards and back, while a job runs: nobody is blamed for it,
# nothing is lost, and the ledger counts the seconds that really passed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

library=
for place in /usr/lib/*/faketime/libfaketime.so.1; do
    [ ! -e "$place" ] || library=$place
done
[ -n "$library" ] || skip_all "no libfaketime here"

STEPS=300
dir=$LOCKSTEP_STATE/runs/jump
clock=$TAP/clock
grows_beyond() { [ "$(stat -c %s "$dir/log.lsf" 2>/dev/null || echo 0)" -gt "$1" ]; }

# Launcher, agents and controller see the jumps.  Ranks tell no time of day, and the library wraps more of
# libc than the clock.
echo +0 >"$clock"
env LD_PRELOAD="$library" FAKETIME_TIMESTAMP_FILE="$clock" FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1 \
    timeout -k 5 90 "$LOCKSTEP" run -n 2 --nodes 2 --name jump -- \
    env -u LD_PRELOAD "$LOCKSTEP" trainer --steps $STEPS --step-ms 10 --host-work-ms 0 >"$TAP/run.out" 2>"$TAP/run.err" </dev/null &
run=$!
await grows_beyond 20000
echo +5h >"$clock"
await grows_beyond 40000
echo -7h >"$clock"
await grows_beyond 60000
echo +0 >"$clock"
wait $run
status=$?
cp "$TAP/run.err" "$TAP/err"
[ $status = 0 ]
tap_result $? "a job does not notice that the clock jumps"
"$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
# A machine that does other work at the same time slows ranks for real, one or all, and steps of 10 ms show it;
# that may be said.  A clock that is believed would give hangs, pauses, slow starts or a network between the nodes.
grep '"kind"' "$TAP/out" | grep -Ev '"(straggler|regression)"' >"$TAP/err"
[ ! -s "$TAP/err" ]
tap_result $? "nobody is blamed for it"
wall=$(sed -n 's/.*"wall_seconds": *\([0-9]*\).*/\1/p' "$TAP/out" | head -n 1)
[ -n "$wall" ] && [ "$wall" -lt 90 ]
tap_result $? "the ledger counts what passed, not what the clock said (${wall:-none} s)"
ok "every step is told once, or counted as lost" "$BUILD/test/log-check" "$dir" $STEPS
ok "and the log gives the same again" "$LOCKSTEP" why --replay "$dir"
done_testing
