#!/bin/sh
# The disk under a controller's log fails: a sync, a write, and the cutting off of what a failed write left.
# What was not acknowledged is sent again and is in the log once; what was acknowledged is there.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=900 RANKS=2
site=$TAP/site user=$TAP/user
control='' run=''
leave()
{
    [ -z "$run" ] || kill "$run" 2>/dev/null
    [ -z "$control" ] || kill "$control" 2>/dev/null
    wait
    rm -rf "$TAP"
}
trap leave EXIT

ready() { curl -sf "$url/readyz"; }
unready() { [ "$(curl -s -o "$TAP/out" -w '%{http_code}' "$url/readyz")" = 503 ]; }
fails() { : >"$IO_FAULT.log"; echo "$*" >"$IO_FAULT"; }
heals() { : >"$IO_FAULT"; }
log_size() { stat -c %s "$site/runs/r1/log.lsf"; }
spool_size() { cat "$user"/runs/r1/spool/*.lsf | wc -c; }
spooled() { [ "$(spool_size)" -gt "$1" ]; }
grows() { [ "$(log_size)" -gt "$1" ]; }

IO_FAULT=$TAP/fault IO_FAULT_NAME=log.lsf
export IO_FAULT IO_FAULT_NAME
heals
LOCKSTEP_STATE=$site LD_PRELOAD=$BUILD/test/libio-fault.so "$LOCKSTEP" control --listen 127.0.0.1:0 \
    2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
url=$(cat "$site/control.url")
await ready
LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
    timeout -k 5 90 "$LOCKSTEP" run -q --name r1 -n $RANKS -- "$LOCKSTEP" trainer --steps $STEPS --step-ms 10 \
    --host-work-ms 0 >"$TAP/run.out" 2>"$TAP/run.err" &
run=$!
await test -s "$site/runs/r1/log.lsf"

for what in fdatasync pwrite "pwrite ftruncate" "fdatasync ftruncate"; do
    await grows $(($(log_size) + 20000)) # it works between two faults
    # shellcheck disable=SC2086 # words
    fails $what
    await unready
    tap_result $? "when $what fails it is not ready"
    for call in $what; do
        await grep -q "^$call$" "$IO_FAULT.log"
        tap_result $? "for $call did fail"
    done
    await spooled $(($(spool_size) + 5000)) # which the controller cannot take
    heals
    await ready
    tap_result $? "and is when that is over"
done
has "a failed sync is said" 'fdatasync: Input/output error' "$TAP/control.err"
wait $run
is "the job does not notice" $? 0
run=''
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
is "every step is in the log once" "$(number steps)" $((STEPS * RANKS))
is "no frame is lost" "$(number lost_frames)" 0
ok "and gives the same verdicts again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r1
mkdir "$TAP/both"
cp -r "$user/runs/r1/spool" "$site/runs/r1/log.lsf" "$TAP/both/"
ok "no frame of the spools is missing, twice or out of order" "$BUILD/test/log-check" "$TAP/both" $STEPS
kill -TERM $control
wait $control
is "it ends when told" $? 0
control=''
done_testing
