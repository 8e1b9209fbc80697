#!/bin/sh
# Orders while controller, launcher, agent and the child that waits for orders are killed: each order is carried out once or
# is reported as not carried out.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

RANKS=2
launcher=
trap 'kill -9 $launcher 2>/dev/null; rm -rf "$TAP"' EXIT
command -v python3 >/dev/null || skip_all "no python3 here"
run=$LOCKSTEP_STATE/runs/r1

begin()
{
    "$LOCKSTEP" run -q --name r1 -n $RANKS --grace 1s -- "$LOCKSTEP" trainer --steps 100000 --step-ms 20 \
        --checkpoint-dir "$TAP/saved" --checkpoint-every 1000000 >"$TAP/run.out" 2>"$TAP/run.err" &
    launcher=$!
    await test -s "$run/control.url"
}

child() # COMMAND: the run's process with that word
{
    pgrep -f -- "lockstep $1 --run-dir $run" | head -n 1
}

fault() # WORD
{
    case $1 in
    launcher) kill -9 $launcher ;;
    *) kill -9 "$(child "$1")" ;;
    esac
}

request() # the answer is in $TAP/out
{
    : >"$TAP/err" # the words of the last one must not be read
    timeout 60 "$LOCKSTEP" request checkpoint r1 >"$TAP/out" 2>"$TAP/err" &
    asker=$!
    await grep -q "$1" "$TAP/err"
}

begin
for word in control orders; do
    request 'request q-'
    fault "$word"
    wait $asker
    is "a request is served though $word is killed before the order" $? 0
    is "by all ranks at one step" "$(sed -n 's/^rank [0-9]: saved at step //p' "$TAP/out" | uniq -c | tr -s ' ' | cut -d ' ' -f 2)" $RANKS
done
for word in agent control; do
    request 'ordered for the end'
    fault "$word"
    wait $asker
    is "a request is served though $word is killed after the order" $? 0
done

# The launcher dies with an order in its hands, and the run goes on with another one.
request 'ordered for the end'
begun() { python3 "$SOURCE/test/t/outcomes.py" "$run/log.lsf" "$run/spool/launcher.lsf" | grep -q 'begun and has no end'; }
await begun
fault launcher
wait $launcher 2>/dev/null
kill $asker 2>/dev/null
wait $asker 2>/dev/null
ended() { [ -z "$(child control)$(child orders)$(child agent)" ]; }
await ended
rm -f "$run/control.url"
begin
request 'request q-'
wait $asker
is "the next launcher serves requests" $? 0
kill -TERM $launcher
wait $launcher
launcher=
python3 "$SOURCE/test/t/outcomes.py" "$run/log.lsf" "$run/spool/launcher.lsf" >"$TAP/out" 2>"$TAP/err"
is "no order was carried out twice, and each is reported" $? 0
has "of all that there were" '^([6789]|[1-9][0-9]) ordered, ([6789]|[1-9][0-9]) begun, 0 faults$' "$TAP/out"
"$LOCKSTEP" why --replay r1 >"$TAP/out" 2>&1
has "the log gives the same decisions again" 'byte-equal$' "$TAP/out"
done_testing
