#!/bin/sh
# Runs of several users at once, on one controller: each is told of its own steps only, nobody takes another's name,
# and a node of one that comes late, goes for a while and comes back disturbs neither it nor the others.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

RANKS=2 STEPS=60
site=$TAP/site
control='' pids=''
leave()
{
    for pid in $pids $control; do kill -9 "$pid" 2>/dev/null; done
    wait
    rm -rf "$TAP"
}
trap leave EXIT
status() { curl -s -o "$TAP/out" -w '%{http_code}' "$@"; }
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
LOCKSTEP_CONTROL=$(cat "$site/control.url")
export LOCKSTEP_CONTROL
await curl -sf "$LOCKSTEP_CONTROL/healthz"
umask 077
for who in ada bob; do
    printf 'lst_%s\n' "$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$site/tokens/launch-$who.token"
done
kill -HUP $control # reads them

# ada trains three runs, bob one, whose second node is served by an agent that comes late and goes for a while.
for run in a1 a2 a3; do
    (LOCKSTEP_STATE=$TAP/ada LOCKSTEP_TOKEN_FILE=$site/tokens/launch-ada.token timeout -k 5 100 "$LOCKSTEP" run -q \
        --name $run -n $RANKS -- "$LOCKSTEP" trainer --steps $STEPS --step-ms 20 --host-work-ms 0 \
        >"$TAP/$run.out" 2>&1
    echo $? >"$TAP/$run.done") &
    pids="$pids $!"
done
LOCKSTEP_STATE=$TAP/bob LOCKSTEP_TOKEN_FILE=$site/tokens/launch-bob.token
export LOCKSTEP_STATE LOCKSTEP_TOKEN_FILE
bob=$TAP/bob/runs/b1
(timeout -k 5 100 "$LOCKSTEP" run -q --no-watch --name b1 -n $RANKS --nodes 2 -- "$LOCKSTEP" trainer --steps $STEPS \
    --step-ms 50 --host-work-ms 0 >"$TAP/b1.out" 2>&1
echo $? >"$TAP/b1.done") &
pids="$pids $!"
await grep -Eqs '"rings": *"/' "$bob/run.json"
"$LOCKSTEP" send --run-dir "$bob" --patience 60s 2>"$TAP/send.err" &
send=$!
"$LOCKSTEP" agent --run-dir "$bob" --node n0 2>"$TAP/n0.err" &
n0=$!
pids="$pids $send $n0"
second() { "$LOCKSTEP" agent --run-dir "$bob" --node n1 2>>"$TAP/n1.err" & n1=$!; pids="$pids $n1"; }
nodes() { [ "$(curl -s -K "$(bearer "$site/tokens/reader.token")" "$LOCKSTEP_CONTROL/api/v1/nodes?run=b1" | grep -o '"node"' | wc -l)" = "$1" ]; }
await nodes 1
second
await nodes 2
tap_result $? "a node that comes late is known"
kill -9 $n1
wait $n1 2>/dev/null
logged() { [ "$(stat -c %s "$site/runs/b1/log.lsf")" -gt "$1" ]; }
await logged $(($(stat -c %s "$site/runs/b1/log.lsf") + 2000)) # by the other node
spooled=$(stat -c %s "$bob/spool/agent-n1.lsf")
second
wrote_again() { [ "$(stat -c %s "$bob/spool/agent-n1.lsf")" -gt "$spooled" ]; }
await wrote_again
over() { for run in a1 a2 a3 b1; do [ -e "$TAP/$run.done" ] || return 1; done; }
await over
for run in a1 a2 a3 b1; do is "run $run does not notice the others" "$(cat "$TAP/$run.done")" 0; done
kill -TERM $n0 $n1
wait $n0
wait $n1
kill -TERM $send
wait $send
is "all of it reaches the controller" $? 0
for run in a1 a2 a3 b1; do
    LOCKSTEP_STATE=$site "$LOCKSTEP" why --json $run >"$TAP/out" 2>"$TAP/err"
    is "run $run has each of its own steps once" "$(number steps)" $((STEPS * RANKS))
    is "and lost no frame" "$(number lost_frames)" 0
    ok "and is judged the same again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay $run
done
is "ada's runs are hers" "$(cat "$site/runs/a1/owner")" launch-ada
is "bob cannot take the name of one" \
    "$(status -K "$(bearer "$site/tokens/launch-bob.token")" -d '{"run":"a1"}' "$LOCKSTEP_CONTROL/api/v1/runs")" 403
is "nor bring facts to it" "$(status -K "$(bearer "$bob/agent.token")" --data-binary @"$bob/spool/launcher.lsf" \
    "$LOCKSTEP_CONTROL/api/v1/frames?run=a1")" 401
kill -TERM $control
wait $control
is "it ends when told" $? 0
control=''
done_testing
