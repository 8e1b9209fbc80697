#!/bin/sh
# An agent or sender of another version than the controller: both say so, in one line, and what to do; nothing
# is taken, nothing is lost, and what they can say again is taken when versions agree.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

site=$TAP/site user=$TAP/user
control='' agent=''
leave()
{
    for pid in $agent $control; do kill "$pid" 2>/dev/null; done
    wait
    rm -rf "$TAP"
}
trap leave EXIT

LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
LOCKSTEP_CONTROL=$(cat "$site/control.url") LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token LOCKSTEP_STATE=$user
export LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE LOCKSTEP_STATE
mkdir -p "$user/runs/r1/spool" "$user/runs/r2/spool" "$TAP/rings"
for run in r1 r2; do echo "{\"id\":\"$run\",\"ranks\":0,\"nodes\":[{\"name\":\"n1\",\"ranks\":[]}],\"rings\":\"$TAP/rings\"}" >"$user/runs/$run/run.json"; done
words='version 9, this controller \([0-9.]+\) reads version 1: install the same lockstep on both sides'

"$BUILD/test/frames" make 0 5 9 >"$user/runs/r1/spool/launcher.lsf"
exits 3 "what another version has spooled cannot be sent" "$LOCKSTEP" send --patience 1s "$user/runs/r1"
has "the sender says why, and what to do" "$words" "$TAP/err"
is "in one line" "$(grep -c 'both sides' "$TAP/err")" 1
has "so does the controller, and of which run" "run r1: refusing facts: .*$words" "$TAP/control.err"

# An agent that goes on with the spool of a newer one.
"$BUILD/test/frames" make 0 5 9 >"$user/runs/r2/spool/agent-n1.lsf"
curl -s -H "Authorization: Bearer $(cat "$LOCKSTEP_TOKEN_FILE")" -d '{"run":"r2"}' "$LOCKSTEP_CONTROL/api/v1/runs" |
    sed -n 's/.*"token": *"\([^"]*\)".*/\1/p' >"$user/runs/r2/agent.token"
chmod 600 "$user/runs/r2/agent.token"
"$LOCKSTEP" agent --run-dir "$user/runs/r2" --node n1 --rings "$TAP/rings" 2>"$TAP/agent.err" &
agent=$!
await grep -q "both sides" "$TAP/agent.err"
has "an agent says it, too" "$words" "$TAP/agent.err"
await grep -q 'run r2: refusing facts' "$TAP/control.err"
tap_result $? "and the controller"
is "the agent goes on" "$(kill -0 $agent && echo alive)" alive
kill $agent
wait $agent 2>/dev/null
agent=''
is "the controller said it once a run" "$(grep -c 'refusing facts' "$TAP/control.err")" 2
[ ! -s "$site/runs/r1/log.lsf" ] || "$BUILD/test/frames" numbers "$site/runs/r1/log.lsf" >"$TAP/out"
lacks "nothing of it was taken" '^[0-9]' "$TAP/out"
"$BUILD/test/frames" make 0 5 >"$user/runs/r1/spool/launcher.lsf"
ok "the same of the right version is" "$LOCKSTEP" send --patience 5s "$user/runs/r1"
done_testing
