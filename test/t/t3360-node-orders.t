#!/bin/sh
# Orders for a node: its daemon gets them with the node's token, carries each out at most once and reports the outcome, also
# when the controller or the daemon is killed; who may ask for one, the budget, and that the site's log replays.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"
root=$TAP/shm state=$TAP/agents daemon=''
trap 'kill -9 $control $daemon 2>/dev/null; rm -rf "$TAP"' EXIT
mkdir -p -m 700 "$root" "$state"

daemon_start()
{
    LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" agent --every-run --every-root "$root" --state "$state" \
        --node n1 --control "$url" --kmsg "$TAP/kmsg" 2>>"$TAP/daemon.err" &
    daemon=$!
}
daemon_kill() { kill -9 $daemon; wait $daemon 2>/dev/null; }
node() { show api/v1/nodes/n1 >"$TAP/node"; }
known() { node && grep -q '"node":"n1"' "$TAP/node"; }
ask() # OPTION...: what came of it is in $TAP/out
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" request inspect --control "$url" "$@" n1 >"$TAP/out" 2>"$TAP/err"
}
again() # as site_start, at the same address: the daemon knows no other
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#http://}" "$@" 2>>"$TAP/control.err" &
    control=$!
    await curl -sf "$url/healthz"
}

: >"$TAP/kmsg"
site_start --inspections 5
ask
is "a node that never sent anything gets no orders" $? 3
has "which is said" "node 'n1' has sent nothing with a token of its own" "$TAP/err"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >/dev/null
install -m 600 "$site/nodes/n1.token" "$state/node.token"
daemon_start
await known
tap_result $? "a node is known by its token"

# Who may ask.
for role in reader launch; do
    is "the $role token may not ask a node" "$(status -K "$(bearer "$site/tokens/$role.token")" -d '{"kind":"inspect"}' "$api/nodes/n1/requests")" 403
done
is "nor may the node itself" "$(status -K "$(bearer "$site/nodes/n1.token")" -d '{"kind":"inspect"}' "$api/nodes/n1/requests")" 401
is "another kind of request is refused" "$(status -K "$(bearer "$site/tokens/admin.token")" -d '{"kind":"depth"}' "$api/nodes/n1/requests")" 400
is "its orders are not for the token of another node" "$(LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n2 >/dev/null; status -K "$(bearer "$site/nodes/n2.token")" "$api/orders?node=n1")" 401
is "nor for a reader" "$(status -K "$(reader)" "$api/orders?node=n1")" 403

# One that works.
ask
is "an inspection is ordered, carried out and reported" $? 0
has "by the node" '^node n1: done: 1 sensors were read$' "$TAP/out"
known
has "with a check for each sensor" '"stage":"inspect","name":"kmsg"' "$TAP/node"
has "so that the node is no longer unknown" '"state":"ok"' "$TAP/node"

# The daemon is killed while it carries one out.
ask --wait 0s
id=$(cat "$TAP/out")
await grep -q "order d-.*inspecting" "$TAP/daemon.err"
begun() { show "api/v1/nodes/n1/requests?id=$1" >"$TAP/request" && grep -q '"part":"node n1"' "$TAP/request"; }
await begun "$id"
daemon_kill
daemon_start
closed() { show "api/v1/nodes/n1/requests?id=$1" >"$TAP/request" && grep -q '"open":false' "$TAP/request"; }
await closed "$id"
tap_result $? "an order that a killed daemon had begun is over"
has "and reported as unknown" '"result":"unknown","step":null,"text":"node n1 was restarted before it saw the end"' "$TAP/request"

# The daemon is dead when the order is given.
daemon_kill
ask --wait 0s
id=$(cat "$TAP/out")
daemon_start
await closed "$id"
has "an order that nobody had begun is carried out by the next daemon" '"result":"done"' "$TAP/request"

# The controller is killed after it was asked, and after the order was begun.
for moment in asked begun; do
    ask --wait 0s
    id=$(cat "$TAP/out")
    [ $moment = asked ] || await begun "$id"
    kill -9 $control
    wait $control 2>/dev/null
    again --inspections 5
    await closed "$id"
    tap_result $? "a controller that is killed ($moment) goes on with it"
    has "and it is done ($moment)" '"result":"done"' "$TAP/request"
done

# Forged outcomes: no user can send one, and a node only its own.
"$BUILD/test/node-frames" outcome n2 d-0123456789abcdef 9000 >"$TAP/body"
is "a node cannot report for another" "$(status -K "$(bearer "$site/nodes/n1.token")" --data-binary @"$TAP/body" "$api/nodes/n1/frames")" 403

# The budget.
is "beyond the budget nothing is ordered" "$(ask; echo $?)" 1
has "and the reason is given" 'the budget is used up: 5 inspections in an hour' "$TAP/err"

python3 "$SOURCE/test/t/outcomes.py" "$site/site.lsf" "$state/node/node.lsf" >"$TAP/out" 2>"$TAP/err"
is "each order was carried out at most once" $? 0
has "of five" '^5 ordered, 5 begun, 0 faults$' "$TAP/out"
kill -9 $control
wait $control 2>/dev/null
again --inspections 5
lacks "the site's log replays byte for byte" 'differently' "$TAP/control.err"
done_testing
