#!/bin/sh
# The controller is killed while it reads the last facts of a run: it gets another life, and every fact is in the log.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

pid_of() # WORD: processes of this run that are 'lockstep WORD'
{
    for environ in $(grep -lsxz "LOCKSTEP_STATE=$LOCKSTEP_STATE" /proc/[0-9]*/environ); do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        case $(tr "\0" "\n" <"/proc/$pid/cmdline" 2>/dev/null | sed -n 2p) in "$1") echo "$pid" ;; esac
    done
}
trap 'kill -9 $(pid_of run) $(pid_of control) $(pid_of trainer) 2>/dev/null; rm -rf "$TAP"' EXIT

has_spool() { [ "$(cat "$dir"/spool/*.lsf 2>/dev/null | wc -c)" -gt 20000 ]; }
has_controller() { [ -s "$dir/control.url" ]; }
trainers_are_gone()
{
    for trainer in $trainers; do
        [ ! -d "/proc/$trainer" ] || return 1
    done
}

for delay in 0 0.004 0.02; do
    dir=$LOCKSTEP_STATE/runs/r$delay
    "$LOCKSTEP" run -q -n 2 --name "r$delay" -- "$LOCKSTEP" trainer --steps 100000 --step-ms 10 --host-work-ms 0.5 \
        --stop-file "$TAP/stop$delay" >"$TAP/run.out" 2>"$TAP/run.err" </dev/null &
    launcher=$!
    await has_controller
    control=$(pid_of control)
    trainers=$(pid_of trainer)
    kill -STOP $control
    await has_spool
    touch "$TAP/stop$delay"
    while ! trainers_are_gone; do :; done
    sleep "$delay" # a moment in the middle of the end
    kill -9 $control
    wait $launcher
    is "the run ends well, killed after $delay s" $? 0
    ok "and every fact is in the log" "$BUILD/test/log-check" "$dir" \
        "$(sed -n 's/.*done after \([0-9]*\) steps.*/\1/p' "$dir/out/rank-0.log")"
done
done_testing
