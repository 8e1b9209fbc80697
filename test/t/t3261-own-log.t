#!/bin/sh
# The log of a run without a site stays short as well, also when its controller is killed meanwhile: whoever follows it
# hears everything once, every step is counted once, and the same verdicts come out of it again.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=900 RANKS=2 MAX=60000
run=''
trap '[ -z "$run" ] || kill $run 2>/dev/null; wait; rm -rf "$TAP"' EXIT
here=$LOCKSTEP_STATE/runs/r1

compacted() { [ "$(grep -c 'compacted its log' "$here/control.log")" -ge "$1" ]; }
controller() # its process: it alone holds the lock of the log's writer
{
    pgrep -f "control --run-dir $here" | head -n 1
}

printf 'lockstep-plan 1\nnodes 1\nfault gpu-slow:rank=1,factor=2,step=100\n' >"$TAP/plan"
LOCKSTEP_LOG_MAX=$MAX timeout -k 5 100 "$LOCKSTEP" run --name r1 -n $RANKS -- "$LOCKSTEP" trainer --steps $STEPS \
    --step-ms 5 --host-work-ms 0 --plan "$TAP/plan" >"$TAP/run.out" 2>"$TAP/run.err" &
run=$!
await compacted 1
tap_result $? "the log of a run without a site is compacted"
before=$(controller)
kill -9 "$before"
tap_result $? "its controller is killed"
back() { now=$(controller) && [ -n "$now" ] && [ "$now" != "$before" ]; }
await back
tap_result $? "and started again"
await compacted 2
tap_result $? "by the next one, too"
wait $run
is "the job does not notice" $? 0
run=''
"$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
is "every step is counted once" "$(number steps)" $((STEPS * RANKS))
is "no frame is lost" "$(number lost_frames)" 0
is "nor could any not be understood" "$(number malformed)" 0
has "what was said stays" '"kind": "straggler"' "$TAP/out"
size=$(stat -c %s "$here/log.lsf")
whole=$(cat "$here"/spool/*.lsf | wc -c)
# Without it the log is larger than the spools; how much has come since the last time is the machine's affair.
[ $((size * 10)) -lt $((whole * 8)) ]
tap_result $? "its log has $size bytes, its spools $whole"
ok "it is judged the same again" "$LOCKSTEP" why --replay r1
has "with all that was said since then" 'byte-equal' "$TAP/out"
[ ! -e "$here/log.lsf.anew" ]
tap_result $? "nothing lies about"
done_testing
