#!/bin/sh
# A run whose controller cannot be reached: the agent's spool stays bounded, the oldest steps are merged and
# nothing is missing, also when the controller goes and comes back; with one that can be reached nothing is merged.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=60 RANKS=2 MAX=16000
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
        "$LOCKSTEP" trainer --steps $STEPS --step-ms 40 --host-work-ms 0 >"$TAP/run.out" 2>"$TAP/run.err"
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
size=$(cat "$user"/runs/r2/spool/agent-*.lsf | wc -c)
[ "$size" -lt $((2 * MAX)) ]
tap_result $? "has a spool of $size bytes"
has "says that steps are merged" 'of the oldest unsent steps' "$user"/runs/r2/agent-*.log
begin
ok "is brought later" env LOCKSTEP_STATE="$user" "$LOCKSTEP" send r2
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r2 >"$TAP/out" 2>"$TAP/err"
merged=$(number merged_steps)
[ "$merged" -gt 0 ]
tap_result $? "with $merged of its steps merged"
is "every step is told once" "$(number steps)" $((STEPS * RANKS))
is "none as lost" "$(number gap_steps)" 0
is "nor is any frame" "$(number lost_frames)" 0
is "and all exits" "$(number exits)" $RANKS
has "and its end" '"status": 0,' "$TAP/out"
ok "and is judged the same again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r2
curl -s -K "$(bearer "$site/tokens/reader.token")" "$LOCKSTEP_CONTROL/api/v1/runs/r2/ranks" >"$TAP/out"
has "its index has the last step of all" '"step": ?59' "$TAP/out"

# What a verdict rests on is not merged: memory goes wrong in a step whose ops do not fit into the spool any more.
kill -TERM $control
wait $control
printf 'lockstep-plan 1\nnodes 1\nfault bit-flip:rank=1,step=30\n' >"$TAP/plan"
LOCKSTEP_STATE=$user LOCKSTEP_SPOOL_MAX=180000 timeout -k 5 90 "$LOCKSTEP" run -q --name r4 -n 4 -- "$LOCKSTEP" trainer \
    --steps 90 --micro-batches 16 --layout pp=2,dp=2 --step-ms 20 --host-work-ms 0 --plan "$TAP/plan" >"$TAP/run.out" 2>"$TAP/run.err"
is "a run with wrong memory and no controller" $? 0
begin
ok "it is brought later" env LOCKSTEP_STATE="$user" "$LOCKSTEP" send r4
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r4 >"$TAP/out" 2>"$TAP/err"
bare=$(number bare_steps)
[ "$bare" -gt $((4 * 31)) ]
tap_result $? "$bare of its steps came without their ops"
is "none of them is merged" "$(number merged_steps)" 0
is "all of them came" "$(number steps)" $((4 * 90))
has "its verdict is there all the same" '"kind": "corruption"' "$TAP/out"
has "since the step in which it was" '"since_step": 30,' "$TAP/out"
has "with the last clean one, which had no ops any more either" 'the last clean step is 29' "$TAP/out"
ok "judged again it is the same" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r4
has "byte for byte" byte-equal "$TAP/out"

# The controller goes while it is being told, for much longer than the spool can hold, and comes back.
LONG=800
kill_control() { kill -9 $control; wait $control 2>/dev/null; }
spooled() { [ "$(grep -c 'of the oldest unsent steps' "$user"/runs/r3/agent-*.log)" -ge "$1" ]; }
LOCKSTEP_STATE=$user LOCKSTEP_SPOOL_MAX=$MAX timeout -k 5 90 "$LOCKSTEP" run -q --name r3 -n $RANKS -- \
    "$LOCKSTEP" trainer --steps $LONG --step-ms 4 --host-work-ms 0 >"$TAP/run.out" 2>"$TAP/run.err" &
run=$!
log_size() { stat -c %s "$site/runs/r3/log.lsf" 2>/dev/null || echo 0; }
logged() { [ "$(log_size)" -gt "$1" ]; }
await logged 4000
kill_control
await spooled 2
tap_result $? "a spool is merged again and again while the controller is away"
begin
registered() { curl -s -K "$(bearer "$site/tokens/reader.token")" "$LOCKSTEP_CONTROL/api/v1/runs" | grep -q r3; }
await registered
await logged $(($(log_size) + 1000))
kill_control
await spooled 3
begin
wait $run
is "its run does not notice" $? 0
ok "what is left is brought" env LOCKSTEP_STATE="$user" "$LOCKSTEP" send r3
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r3 >"$TAP/out" 2>"$TAP/err"
echo "# $(number merged_steps) of $(number steps) steps merged"
is "every step of the long one is told once" "$(number steps)" $((LONG * RANKS))
is "and none as lost" "$(number gap_steps)" 0
is "no frame of it is missing" "$(number lost_frames)" 0
ok "it is judged the same again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r3
kill -TERM $control
wait $control
control=''
done_testing
