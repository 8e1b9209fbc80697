#!/bin/sh
# A node's findings are evidence from root's side: users of the node can neither read its token nor send in its name, and
# what they send about it stays their own.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/guard.sh"
. "$SOURCE/test/t/site.sh"
make=$BUILD/test/node-frames
command -v curl >/dev/null || skip_all "no curl here"

send() # UID TOKEN-FILE PATH: $TAP/body, with that user's rights; prints the status
{
    cp "$(bearer "$2")" "$TAP/mine"
    chown "$1" "$TAP/mine"
    as "$1" curl -s -o /dev/null -w '%{http_code}' -K "$TAP/mine" --data-binary @"$TAP/body" "$api/$3"
}

umask 022 # as careless as can be
site_start
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >"$TAP/out" 2>"$TAP/err"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n2 >>"$TAP/out" 2>>"$TAP/err"
is "the token is root's alone" "$(stat -c '%a %u' "$site/nodes/n1.token")" '600 0'
is "and its folder" "$(stat -c '%a %u' "$site/nodes")" '700 0'
is "and the site's log" "$(await test -e "$site/site.lsf"; stat -c '%a %u' "$site/site.lsf")" '600 0'
exits 1 "a user cannot read it" as $ada cat "$site/nodes/n1.token"
exits 2 "nor list the nodes that have one" as $ada ls "$site/nodes"

register r1 >"$TAP/status"
register r2 >"$TAP/status"
{ "$make" ring n1 0 4711; "$make" ring n1 1 4712; } >"$TAP/body"
is "ada's run on the node" "$(send $ada "$site/runs/r1/agent.token" 'frames?run=r1')" 200
"$make" ring n1 0 5711 >"$TAP/body"
is "bob's run on the same node" "$(send $bob "$site/runs/r2/agent.token" 'frames?run=r2')" 200

"$make" findings n1 5711 0 1 >"$TAP/body"
chmod 644 "$TAP/body"
is "ada's token sends nothing in the node's name" "$(send $ada "$site/runs/r1/agent.token" nodes/n1/frames)" 401
is "nor does a launcher's" "$(send $ada "$site/tokens/launch.token" nodes/n1/frames)" 403
is "nor another node's" "$(send $ada "$site/nodes/n2.token" nodes/n1/frames)" 401
is "about another node a node's token sends nothing" "$(send 0 "$site/nodes/n2.token" nodes/n2/frames)" 403
is "ada's run may say what it likes about itself" "$(send $ada "$site/runs/r1/agent.token" 'frames?run=r1')" 200
is "but not in bob's" "$(send $ada "$site/runs/r1/agent.token" 'frames?run=r2')" 401
is "the site's log has nothing of it" "$("$make" list "$site/site.lsf")" ''
is "and her own log knows that it is hers" "$("$make" list "$site/runs/r1/log.lsf")" 'user 0'

cp "$TAP/body" "$TAP/own"
"$make" steal n2 n1 1000000 >"$TAP/body"
is "nor in the name of another node, whose numbers it would use up" "$(send 0 "$site/nodes/n2.token" nodes/n2/frames)" 403
cp "$TAP/own" "$TAP/body"

{ "$make" owner n1 1002 run r2 0; "$make" owner n1 1002 pid 5711 1; "$make" owner n1 1001 run r1 2; } >"$TAP/body"
is "root's daemon says whose the runs and the process are" "$(send 0 "$site/nodes/n1.token" nodes/n1/frames)" 200
cp "$TAP/own" "$TAP/body"
is "the node's own is accepted" "$(send 0 "$site/nodes/n1.token" nodes/n1/frames)" 200
copied() { "$make" list "$site/runs/r2/log.lsf" | grep -qx 'root 0 0'; }
await copied
ok "it is in the log of the run whose process it names" copied
is "and in no other: what a node knows of bob is not ada's to read" "$("$make" list "$site/runs/r1/log.lsf")" 'user 0'
site_stop
done_testing
