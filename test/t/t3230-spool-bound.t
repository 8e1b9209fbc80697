#!/bin/sh
# A run whose controller cannot be reached: the agent's spool stays bounded, the oldest steps are told as
# lost, nothing else is missing, and with a controller that can be reached nothing is lost at all.
. "$SOURCE/test/t/tap.sh"

STEPS=60 RANKS=2 MAX=12000
site=$TAP/site user=$TAP/user
control=''
trap '[ -z "$control" ] || kill -9 $control 2>/dev/null; rm -rf "$TAP"' EXIT

begin()
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${listen:-127.0.0.1:0}" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    LOCKSTEP_CONTROL=$(cat "$site/control.url")
    await curl -sf "$LOCKSTEP_CONTROL/healthz"
}

train() # NAME
{
    LOCKSTEP_STATE=$user LOCKSTEP_SPOOL_MAX=$MAX timeout -k 5 90 "$LOCKSTEP" run -q --name "$1" -n $RANKS -- \
        "$LOCKSTEP" trainer --steps $STEPS >"$TAP/run.out" 2>"$TAP/run.err"
}

begin
LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token
export LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE
listen=${LOCKSTEP_CONTROL#http://}
train r1
is "a run with a small spool" $? 0
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
is "whose controller takes everything loses nothing" "$(number steps)" $((STEPS * RANKS))
is "and tells no gap" "$(number gap_steps)" 0
is "no frame is missing" "$(number lost_frames)" 0
kill -TERM $control
wait $control
train r2
is "a run without a controller" $? 0
size=$(cat "$user"/r2/spool/agent-*.lsf | wc -c)
[ "$size" -lt $((2 * MAX)) ]
tap_result $? "has a spool of $size bytes"
has "says that steps are lost" 'the oldest steps that nobody took are told as lost' "$user"/r2/agent-*.log
begin
ok "is brought later" env LOCKSTEP_STATE="$user" "$LOCKSTEP" send r2
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r2 >"$TAP/out" 2>"$TAP/err"
steps=$(number steps) gaps=$(number gap_steps)
[ "$gaps" -gt 0 ]
tap_result $? "with $gaps steps told as lost"
is "and every other one" $((steps + gaps)) $((STEPS * RANKS))
is "and all exits" "$(number exits)" $RANKS
has "and its end" '"status": 0,' "$TAP/out"
ok "and is judged the same again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r2
kill -TERM $control
wait $control
control=''
done_testing
