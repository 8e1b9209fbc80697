#!/bin/sh
# The long poll for orders: whose token sees which orders, how many may wait, and when it is answered.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

site=$TAP/site user=$TAP/user
control='' launcher='' polls=''
trap 'kill -9 $control $launcher $polls 2>/dev/null; rm -rf "$TAP"' EXIT

status() # CURL-ARGUMENT...: the status, and the body in $TAP/out
{
    curl -s -o "$TAP/out" -w '%{http_code}' "$@"
}

LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
url=$(cat "$site/control.url")
api=$url/api/v1
await curl -sf "$url/healthz"
LOCKSTEP_CONTROL=$url
export LOCKSTEP_CONTROL
LOCKSTEP_STATE=$user LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" run -q --name r1 -n 2 --grace 1s -- \
    "$LOCKSTEP" trainer --steps 100000 --step-ms 20 --checkpoint-dir "$TAP/saved" --checkpoint-every 1000000 \
    >"$TAP/run.out" 2>"$TAP/run.err" &
launcher=$!
await test -s "$site/runs/r1/log.lsf"
own=$(bearer "$user/runs/r1/agent.token")
cp "$own" "$TAP/own" # another run's token has the same file name
admin=$(bearer "$site/tokens/admin.token") reader=$(bearer "$site/tokens/reader.token")
launch=$(bearer "$site/tokens/launch.token")
is "another run is registered" "$(status -K "$launch" -d '{"run":"r2"}' "$api/runs")" 200
other=$(bearer "$site/runs/r2/agent.token")

is "without a token there are no orders" "$(status "$api/orders?run=r1")" 401
is "a reader gets none" "$(status -K "$reader" "$api/orders?run=r1")" 403
is "nor does a launcher's token" "$(status -K "$launch" "$api/orders?run=r1")" 403
is "nor another run's" "$(status -K "$other" "$api/orders?run=r1")" 401
is "of a run that is not there nobody does" "$(status -K "$admin" "$api/orders?run=r9")" 404
is "a number that is none is refused" "$(status -K "$TAP/own" "$api/orders?run=r1&after=-1")" 400
is "no request without a token" "$(status -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 401
is "none by a reader" "$(status -K "$reader" -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 403
is "none with another run's token" "$(status -K "$other" -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 401
is "a kind that is none is refused" "$(status -K "$launch" -d '{"kind":"reboot"}' "$api/runs/r1/requests")" 400
has "with those that there are" 'checkpoint-now, depth or cancel' "$TAP/out"
is "so is a depth" "$(status -K "$launch" -d '{"kind":"depth","argument":7}' "$api/runs/r1/requests")" 400
is "and what is no JSON" "$(status -K "$launch" -d 'checkpoint' "$api/runs/r1/requests")" 400

# A node's token is for that node's orders, and a run's for that run's.
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >"$TAP/file"
node=$(bearer "$site/nodes/n1.token")
curl -s -m 1 -K "$node" "$api/orders?node=n1" >"$TAP/out"
is "a node's token waits for orders of its node" $? 28
is "not for those of another one" "$(status -K "$node" "$api/orders?node=n2")" 401
is "nor for those of a run" "$(status -K "$node" "$api/orders?run=r1")" 401
is "a run's token does not wait for a node" "$(status -K "$TAP/own" "$api/orders?node=n1")" 401
is "run and node together are refused" "$(status -K "$node" "$api/orders?node=n1&run=r1")" 400

# Sixteen clients may wait, the launcher's child among them; all are answered when an order comes.
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    { until curl -sf -K "$TAP/own" -o "$TAP/poll-$i" "$api/orders?run=r1&after=0"; do sleep 0.2; done; } & # after a 429
    polls="$polls $!"
done
full() { [ "$(status -m 1 -K "$TAP/own" "$api/orders?run=r1")" = 429 ]; }
await full
tap_result $? "no more than sixteen clients wait for the orders of a run"
curl -s -m 1 -K "$other" "$api/orders?run=r2" >"$TAP/out"
is "another run's may: they wait" $? 28
is "nobody was answered yet" "$(cat "$TAP"/poll-* 2>/dev/null | wc -c)" 0
is "the token that created the run may ask for a checkpoint" \
    "$(status -K "$launch" -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 202
is "a second one of the same kind waits for the first" \
    "$(status -K "$launch" -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 409
for pid in $polls; do
    wait "$pid"
done
polls=
is "an order answers all who wait" "$(grep -l '"action":"checkpoint"' "$TAP"/poll-* | wc -l)" 15
is "and they get the same" "$(cat "$TAP"/poll-* | sort -u | wc -l)" 1
is "who comes later gets it, too" "$(status -K "$TAP/own" "$api/orders?run=r1&after=0")" 200
curl -s -m 1 -K "$TAP/own" "$api/orders?run=r1&after=1" >"$TAP/out"
is "who has it waits" $? 28
exits 0 "the launcher carried it out, and requests go through the site's controller" env LOCKSTEP_STATE="$user" \
    "$LOCKSTEP" request depth --depth steps r1
is "every rank answers" "$(grep -c '^rank [01]: done at step' "$TAP/out")" 2
is "by name alone, with the launch token, too" "$(LOCKSTEP_STATE=$TAP/elsewhere LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
    "$LOCKSTEP" request checkpoint r1 2>"$TAP/err" | grep -c '^rank [01]: saved at step')" 2

# A controller that is gone holds up nobody, and comes back.
kill -9 $control
wait $control 2>/dev/null
exits 3 "without a controller the command says so" env LOCKSTEP_STATE="$user" "$LOCKSTEP" request checkpoint r1
kill -0 $launcher
is "the run goes on" $? 0
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#http://}" 2>>"$TAP/control.err" &
control=$!
await curl -sf "$url/healthz"
served() { env LOCKSTEP_STATE="$user" "$LOCKSTEP" request checkpoint r1 >"$TAP/out" 2>"$TAP/err"; }
await served
is "with another one it goes on" "$(grep -c '^rank [01]: saved at step' "$TAP/out")" 2
kill -TERM $launcher
wait $launcher
launcher=
LOCKSTEP_STATE=$site "$LOCKSTEP" why --replay r1 >"$TAP/out" 2>&1
has "the log gives the same decisions again" 'byte-equal$' "$TAP/out"
is "of a run that is over the poll ends at once" "$(status -m 10 -K "$TAP/own" "$api/orders?run=r1&after=99")" 200
has "and says so" '"ended":true' "$TAP/out"
is "and it takes no request" "$(status -K "$launch" -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 409
done_testing
