#!/bin/sh
# Agents, sender and the site's controller are killed at random moments while a job runs: each step of
# each rank is in the controller's log once, and the log gives the same verdicts again byte for byte.
# LOCKSTEP_TEST_KILLS says how many kills (12), LOCKSTEP_TEST_SEED which (1).
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

KILLS=${LOCKSTEP_TEST_KILLS:-12} SEED=${LOCKSTEP_TEST_SEED:-1}
RANKS=4 STEPS=$((30 + KILLS * 4))
site=$TAP/site user=$TAP/user
dir=$user/runs/r1
trap 'kill -9 $control $send $agent0 $agent1 $run 2>/dev/null; rm -rf "$TAP"' EXIT
control='' send='' agent0='' agent1='' run=''

listen=127.0.0.1:0
begin_control()
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen $listen 2>>"$TAP/control.log" &
    control=$!
}
begin_agent() # NODE
{
    "$LOCKSTEP" agent --run-dir "$dir" --node n"$1" 2>>"$TAP/agent.log" &
    eval "agent$1=\$!"
}
begin_send()
{
    "$LOCKSTEP" send --run-dir "$dir" --patience 60s 2>>"$TAP/send.log" &
    send=$!
}

begin_control
await test -s "$site/control.url"
LOCKSTEP_CONTROL=$(cat "$site/control.url") LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token
export LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE
listen=${LOCKSTEP_CONTROL#http://}
await curl -sf "$LOCKSTEP_CONTROL/healthz"
LOCKSTEP_STATE=$user timeout -k 5 600 "$LOCKSTEP" run -q --no-watch --name r1 -n $RANKS --nodes 2 -- \
    "$LOCKSTEP" trainer --steps $STEPS >"$TAP/run.out" 2>"$TAP/run.err" &
run=$!
await test -s "$dir/run.json"
begin_agent 0
begin_agent 1
begin_send

# One line a kill: whom, and how long to wait before it.
awk -v n="$KILLS" -v seed="$SEED" 'BEGIN { srand(seed); split("control agent0 agent1 control send", who, " ")
    for (i = 0; i < n; i++) printf "%s %.3f\n", who[1 + int(rand() * 5)], 0.02 + rand() * 0.4 }' >"$TAP/plan"
kills=0
while read -r victim pause; do
    sleep "$pause" # a random moment
    kill -0 $run 2>/dev/null || break
    eval "pid=\$$victim"
    kill -9 "$pid" 2>/dev/null && kills=$((kills + 1))
    wait "$pid" 2>/dev/null
    case $victim in
    control) begin_control ;;
    send) begin_send ;;
    agent0) begin_agent 0 ;;
    agent1) begin_agent 1 ;;
    esac
done <"$TAP/plan"
[ $kills -ge $((KILLS / 2)) ]
tap_result $? "somebody was killed $kills times"
wait $run
is "the job does not notice" $? 0
run=''
await curl -sf "$LOCKSTEP_CONTROL/healthz"
kill -TERM $agent0 $agent1
wait $agent0
wait $agent1
agent0='' agent1=''
kill -TERM $send
wait $send
is "everything reaches the controller" $? 0
send=''
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
is "every step of every rank is in its log once" "$(number steps)" $((STEPS * RANKS))
is "no frame is lost" "$(number lost_frames)" 0
is "no step is told as lost" "$(number gap_steps)" 0
has "the run has ended well" '"status": 0,' "$TAP/out"
has "and its books are closed" '"source": "log",' "$TAP/out"
ok "the log gives the same verdicts again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r1
has "byte for byte" 'byte-equal$' "$TAP/out"
cp "$site/runs/r1/log.lsf" "$dir/"
ok "every frame of every spool is in it once, in order" "$BUILD/test/log-check" "$dir" $STEPS
kill -TERM $control
wait $control
is "the controller ends when told" $? 0
control=''
done_testing
