#!/bin/sh
# The daemon of a node holds the node's token and sends its own facts with it; no process of a user gets the token, and the
# daemon serves users' runs as before where the token is missing or wrong.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

states() { curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/node-states" >"$TAP/states"; }
known() { states && grep -q '"node":"n1"' "$TAP/states"; }
mkdir -m 700 "$state"
control_start
daemon_start
train $ada work 400
await has_steps work.u$ada 5
tap_result $? "without a token users' runs are served"
states
lacks "and the site does not know the node" '"node":"n1"' "$TAP/states"

# The token of another node is refused, whatever the daemon says of itself.
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n2 >"$TAP/out"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >"$TAP/out"
install -m 600 "$site/nodes/n2.token" "$state/node.token"
await grep -q 'cannot send facts' "$TAP/daemon.err"
tap_result $? "with the token of another node it is refused and logged"
states
lacks "and the site still does not know the node" '"node":"n[12]"' "$TAP/states"

install -m 644 "$site/nodes/n1.token" "$state/node.token.new"
mv "$state/node.token.new" "$state/node.token"
await grep -q 'lets other users read it' "$TAP/daemon.err"
tap_result $? "a token that others may read is not used"
chmod 600 "$state/node.token"
await known
tap_result $? "with its token the node is known"
judged() { states && grep -q '"node":"n1","state":"unknown","why":"no health check' "$TAP/states"; }
await judged
tap_result $? "and not ok: nothing has checked it"
is "token and spool are root's alone" "$(stat -c '%a %u' "$state/node.token" "$state/node" "$state/node/node.lsf" | tr '\n' ' ')" '600 0 700 0 600 0 '
exits 1 "a user cannot read the token" as $ada cat "$state/node.token"
token=$(cat "$state/node.token")
for pid in $(agents $ada); do
    cat "/proc/$pid/environ" "/proc/$pid/cmdline" 2>/dev/null
    ls -l "/proc/$pid/fd" 2>/dev/null
done >"$TAP/seen"
[ -s "$TAP/seen" ] && ! grep -q "$token\|node.token\|node.lsf" "$TAP/seen"
tap_result $? "the agent of a user has neither the token nor the spool"

# A finding in the daemon's spool is sent, and copied into the run of that user.
daemon_stop
"$BUILD/test/node-frames" findings n1 0 1000 1 >>"$state/node/node.lsf"
daemon_start
await has_steps work.u$ada 30
copied() { "$BUILD/test/node-frames" list "$site/runs/work.u$ada/log.lsf" | grep -q '^root 1000 0'; }
await copied
tap_result $? "what root observed is in the log of the run on that node"
done_testing
