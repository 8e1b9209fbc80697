#!/bin/sh
# The disk under the log of a run without a site fails: a sync, a write, and the cutting off of what a failed write left.  The
# facts wait in the spools; where log and judges differ another controller takes over.  In the end each fact is logged once.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ -e "$BUILD/test/libio-fault.so" ] || skip_all "no libio-fault.so here"
dir=$LOCKSTEP_STATE/runs/one stop=$TAP/stop run=''
trap '[ -z "$run" ] || kill $run 2>/dev/null; wait; rm -rf "$TAP"' EXIT
fails() { : >"$IO_FAULT.log"; echo "$*" >"$IO_FAULT"; }
heals() { : >"$IO_FAULT"; }
size() { stat -c %s "$dir/log.lsf" 2>/dev/null || echo 0; }
grows() { [ "$(size)" -gt "$1" ]; }

IO_FAULT=$TAP/fault IO_FAULT_NAME=log.lsf
export IO_FAULT IO_FAULT_NAME
heals
LD_PRELOAD=$BUILD/test/libio-fault.so "$LOCKSTEP" run -q --name one -n 2 -- "$LOCKSTEP" trainer --steps 1000000 --step-ms 10 \
    --host-work-ms 0 --stop-file "$stop" >"$TAP/run.out" 2>"$TAP/run.err" </dev/null &
run=$!
for what in fdatasync pwrite "pwrite ftruncate"; do
    await grows $(($(size) + 10000)) # it works between two faults
    # shellcheck disable=SC2086 # words
    fails $what
    for call in $what; do
        await grep -q "^$call$" "$IO_FAULT.log"
        tap_result $? "when $what fails: $call did"
    done
    heals
    await grows $(($(size) + 5000))
    tap_result $? "the log grows again"
done
has "that it could not be written is logged" 'facts stay in the spools until the log is writable' "$dir/control.log"
touch "$stop"
wait $run
is "the job does not notice" $? 0
run=''
unset IO_FAULT IO_FAULT_NAME
steps=$(sed -n 's/.*done after \([0-9]*\) steps.*/\1/p' "$dir/out/rank-0.log" | tail -n 1)
ok "every step is in the log once ($steps steps)" "$BUILD/test/log-check" "$dir" "$steps"
ok "and is judged the same again" "$LOCKSTEP" why --replay one
has "byte for byte" 'byte-equal$' "$TAP/out"
done_testing
