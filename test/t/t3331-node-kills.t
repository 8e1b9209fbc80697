#!/bin/sh
# The controller is killed right after it acknowledged findings of a node, before it has copied them: each is in the run's
# log exactly once in the end, and the log replays byte for byte.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
make=$BUILD/test/node-frames ROUNDS=12

codes() # LOG: of the findings from root's side
{
    "$make" list "$1" | sed -n 's/^root \([0-9]*\).*/\1/p'
}

accepted() { [ "$(status -K "$(bearer "$site/nodes/n1.token")" --data-binary @"$TAP/body" "$api/nodes/n1/frames")" = 200 ]; }

site_start
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >"$TAP/file"
register r1 >"$TAP/status"
{ "$make" ring n1 0 4711; "$make" ring n1 1 4712; } >"$TAP/body"
is "a run on the node" "$(post r1 "$TAP/body")" 200
"$make" owner n1 1001 run r1 0 >"$TAP/body"
await accepted
tap_result $? "that root's daemon sees there"

round=0 late=0
while [ $round -lt $ROUNDS ]; do
    "$make" findings n1 0 $((round * 5)) 5 >"$TAP/body"
    await accepted
    kill -9 $control
    wait $control 2>/dev/null
    [ "$(codes "$site/runs/r1/log.lsf" | wc -l)" -lt $((round * 5 + 5)) ] && late=$((late + 1))
    round=$((round + 1))
    site_start
done
[ $late -gt 0 ]
tap_result $? "in $late of $ROUNDS rounds the kill came before the copy"
complete() { [ "$(codes "$site/runs/r1/log.lsf" | wc -l)" -ge $((ROUNDS * 5)) ]; }
await complete
seq 0 $((ROUNDS * 5 - 1)) >"$TAP/expected"
codes "$site/runs/r1/log.lsf" >"$TAP/copied"
ok "each is in the run's log once, in its order" cmp "$TAP/expected" "$TAP/copied"
codes_site() { "$make" list "$site/site.lsf" | sed -n 's/^user \([0-9]*\).*/\1/p'; }
codes_site >"$TAP/logged"
ok "and in the site's log" cmp "$TAP/expected" "$TAP/logged"
lacks "no life computed a state differently" 'differently' "$TAP/control.err"
LOCKSTEP_STATE=$site "$LOCKSTEP" why --replay --json r1 >"$TAP/why" 2>"$TAP/err"
is "the run's log replays byte for byte" "$(sed -n 's/.*"different": *\([0-9]*\).*/\1/p' "$TAP/why")" 0
done_testing
