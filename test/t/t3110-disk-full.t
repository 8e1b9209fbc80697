#!/bin/sh
# The disk of the run's directory is full for a while: the training does not notice, and what could not be
# told meanwhile is told afterwards, or counted.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "a small disk of its own needs root"
mkdir "$LOCKSTEP_STATE"
mount -t tmpfs -o size=4m,mode=700 lockstep-t "$LOCKSTEP_STATE" 2>/dev/null ||
    skip_all "a small disk cannot be mounted here"

STEPS=1200
dir=$LOCKSTEP_STATE/runs/full run=

# The run's directory is in use until its last process is gone.
leave()
{
    [ -z "$run" ] || kill "$run" 2>/dev/null
    wait
    umount "$LOCKSTEP_STATE"
    rm -rf "$TAP"
}
trap leave EXIT

is_full()
{
    ! dd if=/dev/zero bs=4k count=1 >>"$LOCKSTEP_STATE/ballast" 2>/dev/null
}

size()
{
    stat -c %s "$1" 2>/dev/null || echo 0
}

grows_beyond() # SIZE FILE
{
    [ "$(size "$2")" -gt "$1" ]
}

spool=$dir/spool/agent-n0.lsf
timeout -k 5 60 "$LOCKSTEP" run -n 2 --nodes 2 --name full -- "$LOCKSTEP" trainer --steps $STEPS --step-ms 5 \
    --host-work-ms 0 >"$TAP/run.out" 2>"$TAP/run.err" </dev/null &
run=$!
await grows_beyond 4000 "$spool"
await grows_beyond 4000 "$dir/log.lsf"
dd if=/dev/zero of="$LOCKSTEP_STATE/ballast" bs=64k 2>/dev/null
await is_full
before=$(size "$spool")
sleep 3 # rings hold some seconds of these steps; the rest must be lost
after=$(size "$spool")
ok "nothing is written to a full disk ($before, $after bytes)" test $((after - before)) -lt 8192
ok "the training goes on" kill -0 $run
rm "$LOCKSTEP_STATE/ballast"
await grows_beyond $((after + 8192)) "$spool"
tap_result $? "and is told of again when there is room"
wait $run
status=$?
run=
cp "$TAP/run.out" "$TAP/out"
cp "$TAP/run.err" "$TAP/err"
test $status = 0
tap_result $? "it ends well"
has "all its steps were trained" "done after $STEPS steps" "$dir/out/rank-0.log"
cat "$dir"/*.log "$TAP/run.err" >"$TAP/said"
sed 's/^/# /' "$TAP/said"
has "the agent says that the disk was full" '^lockstep agent: the spool is writable again after .*No space left on device' \
    "$TAP/said"
# The controller says so as well, but only if the little that comes to it did not fit into its last page.
ok "every step is told once, or counted as lost" "$BUILD/test/log-check" "$dir" $STEPS
sed 's/^/# /' "$TAP/out"
has "some were lost" ' [1-9][0-9]* gaps with [1-9]' "$TAP/out"
"$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
has "why counts them" '"gap_steps": *[1-9]' "$TAP/out"
ok "and gives the same verdicts again" "$LOCKSTEP" why --replay "$dir"
done_testing
