#!/bin/sh
# What nodes send with their own tokens: it is about that node only, it is in the site's log, and findings that touch ranks
# are in the logs of their runs, with these ranks, so that each log replays alone.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
make=$BUILD/test/node-frames

send() # TOKEN-FILE PATH: the body is in $TAP/body; prints the status
{
    status -K "$(bearer "$1")" --data-binary @"$TAP/body" "$api/$2"
}

get() # PATH: prints the status; the body is in $TAP/out
{
    status -K "$(reader)" "$api/$1"
}

begin() # RUN NODE PID PID: a run of two ranks on that node
{
    register "$1" >"$TAP/status"
    cp "$site/runs/$1/agent.token" "$TAP/$1.token"
    { "$make" ring "$2" 0 "$3"; "$make" ring "$2" 1 "$4"; } >"$TAP/body"
    send "$TAP/$1.token" "frames?run=$1" >/dev/null
}

listed() # RUN LINE: is it in the log of the run
{
    "$make" list "$site/runs/$1/log.lsf" | grep -qx "$2"
}

site_start
ok "a node gets a token" "$LOCKSTEP" control --state "$site" --node-token n1
is "its file is printed, not the token" "$(cat "$TAP/out")" "$site/nodes/n1.token"
is "which only its owner may read" "$(stat -c %a "$site/nodes/n1.token")" 600
cp "$site/nodes/n1.token" "$TAP/kept"
ok "asked for again" "$LOCKSTEP" control --state "$site" --node-token n1
ok "it is the same" cmp "$TAP/kept" "$site/nodes/n1.token"
exits 2 "a name with a slash is refused" "$LOCKSTEP" control --state "$site" --node-token ../n1
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n2 >/dev/null

begin r1 n1 4711 4712
begin r2 n1 5711 5712
begin r3 n3 6711 6712
# What root's daemon sees of them.
{
    "$make" owner n1 1001 run r1 0
    "$make" owner n1 1001 pid 4711 1
    "$make" owner n1 1001 pid 4712 2
    "$make" owner n1 1002 run r2 3
    "$make" owner n1 1002 pid 5711 4
    "$make" owner n1 1002 pid 5712 5
} >"$TAP/body"
is "whose runs and processes are on the node" "$(send "$site/nodes/n1.token" nodes/n1/frames)" 200

# What a node may say.
"$make" findings n1 0 0 1 >"$TAP/body"
is "its findings are accepted" "$(send "$site/nodes/n1.token" nodes/n1/frames)" 200
has "and acknowledged with their number" '"taken":1,"doubled":0,.*"next":1' "$TAP/out"
is "sent again" "$(send "$site/nodes/n1.token" nodes/n1/frames)" 200
has "they are there already" '"taken":0,"doubled":1' "$TAP/out"
"$make" findings n2 0 0 1 >"$TAP/body"
is "findings of another node are refused" "$(send "$site/nodes/n1.token" nodes/n1/frames)" 403
has "with the reason" "about node 'n2', but the token is for node 'n1'" "$TAP/out"
is "another node's path is refused" "$(send "$site/nodes/n1.token" nodes/n2/frames)" 401
is "a reader's token is refused" "$(send "$site/tokens/reader.token" nodes/n2/frames)" 403
is "a launcher's token is refused" "$(send "$site/tokens/launch.token" nodes/n2/frames)" 403
is "a run's token is refused" "$(send "$TAP/r1.token" nodes/n2/frames)" 401
is "without a token it is refused" "$(status --data-binary @"$TAP/body" "$api/nodes/n2/frames")" 401
is "a node without a token file has no token" "$(send "$site/nodes/n1.token" nodes/n9/frames)" 401
"$make" note 0 >"$TAP/body"
is "facts of a run are refused" "$(send "$site/nodes/n1.token" nodes/n1/frames)" 403
printf 'no frame at all' >"$TAP/body"
is "other bytes are refused" "$(send "$site/nodes/n1.token" nodes/n1/frames)" 400
"$make" findings n1 0 100 1025 >"$TAP/body"
is "more findings than a body may have are refused" "$(send "$site/nodes/n1.token" nodes/n1/frames)" 413

# Which runs it is copied to.
await listed r1 'root 0 0 1'
ok "a finding without a process is in the log of the run on that node, with its ranks" listed r1 'root 0 0 1'
await listed r2 'root 0 0 1'
ok "and of the other run there" listed r2 'root 0 0 1'
"$make" findings n1 5712 1 1 >"$TAP/body"
send "$site/nodes/n1.token" nodes/n1/frames >"$TAP/status"
await listed r2 'root 1 1'
ok "one that names a rank's process is in the log of its run, with that rank" listed r2 'root 1 1'
"$make" program n1 999999 50 1 >"$TAP/body"
send "$site/nodes/n1.token" nodes/n1/frames >"$TAP/status"
"$make" findings n1 0 2 1 >"$TAP/body"
send "$site/nodes/n1.token" nodes/n1/frames >"$TAP/status"
await listed r1 'root 2 0 1'
is "another run's process, and a program that is no rank, are in no other log" \
    "$("$make" list "$site/runs/r1/log.lsf" | tr '\n' ';')" 'root 0 0 1;root 2 0 1;'
is "a run elsewhere has none" "$("$make" list "$site/runs/r3/log.lsf")" ''
is "all are in the site's log" "$("$make" list "$site/site.lsf" | wc -l)" 4

# What came with a run's token is that run's own, whatever it says.
"$make" findings n1 0 7 1 >"$TAP/body"
is "findings with a run's token are accepted" "$(send "$TAP/r1.token" "frames?run=r1")" 200
await listed r1 'user 7'
ok "as its own" listed r1 'user 7'
is "and the site's log has none of them" "$("$make" list "$site/site.lsf" | grep -c user)" 4
is "rows tell them apart" "$(get 'runs/r1/findings'; grep -o '"root":[a-z]*' "$TAP/out" | sort | uniq -c | tr -s ' \n' ' ')" '200 1 "root":false 2 "root":true '
is "a kind can be asked for" "$(get 'findings?kind=xid&rank=1&run=r2')" 200
is "and a rank" "$(grep -o '"code":[a-z0-9]*' "$TAP/out" | sort | tr '\n' ' ')" '"code":1 "code":2 "code":null '
is "a kind must be one" "$(get 'findings?kind=straggler')" 400

# The state of a node.
is "a node is failed while nothing answers a fatal finding" "$(get nodes/n1)" 200
has "and why" '"state":"failed","why":"xid: GPU has fallen off the bus"' "$TAP/out"
is "its findings are there" "$(grep -o '"code":' "$TAP/out" | wc -l)" 4
"$make" check n2 unknown 0 >"$TAP/body"
is "a check is accepted" "$(send "$site/nodes/n2.token" nodes/n2/frames)" 200
state() { get node-states >"$TAP/status" && grep -q "\"node\":\"$1\",\"state\":\"$2\"" "$TAP/out"; }
await state n2 unknown
ok "what is unknown is not ok" state n2 unknown
"$make" check n1 ok 3 >"$TAP/body"
send "$site/nodes/n1.token" nodes/n1/frames >"$TAP/status"
await state n1 ok
ok "a later check that is ok answers the finding" state n1 ok
status -K "$(reader)" "$url/metrics" >"$TAP/status"
has "metrics count nodes by state" '^lockstep_nodes\{state="ok"\} 1$' "$TAP/out"
has "Xids by their number" '^lockstep_gpu_xid_errors_total\{node="n1",xid="[0-9]+"\} [0-9]+$' "$TAP/out"
has "findings by their kind" '^lockstep_node_findings_total\{node="n1",kind="xid"\} [0-9]+$' "$TAP/out"
has "and those that are unknown" '^lockstep_nodes\{state="unknown"\} 1$' "$TAP/out"
is "a node that never sent anything is not there" "$(get nodes/n3)" 404

if command -v python3 >/dev/null; then
    ok "every answer is as the document says" env LOCKSTEP_TOKEN_FILE="$site/tokens/reader.token" python3 \
        "$SOURCE/test/t/openapi-check.py" "$SOURCE/docs/openapi.json" "$SOURCE/src/control/site/api/api.c" "$url" r1 site_node=n1 \
        steps=none kind=xid rank=0 node=n1
else
    skip "every answer is as the document says" "no python3 here"
fi

# A new life reads the same from the log.
kill -9 $control
wait $control 2>/dev/null
site_start
await state n1 ok
ok "after a kill its state is the same" state n1 ok
lacks "and computed in the same way" 'differently' "$TAP/control.err"
# What a sensor saw of a control group concerns the user whose process is in it, and no other one of the node.
"$make" owner n1 1001 pid 4799 6 >"$TAP/body"
send "$site/nodes/n1.token" nodes/n1/frames >"$TAP/status"
{
    "$make" limit n1 4799 70 1
    "$make" limit n1 0 71 1
} >"$TAP/body"
send "$site/nodes/n1.token" nodes/n1/frames >"$TAP/status"
await listed r2 'root 71 0 1'
tap_result $? "a limit that no process led to is in the log of the other user's run"
await listed r1 'root 70 0 1'
tap_result $? "that of a user's own control group is in the log of his run"
is "and in no other" "$("$make" list "$site/runs/r2/log.lsf" | grep -c ' 70')" 0
send "$TAP/r1.token" "runs/r1/finish" >"$TAP/status"
for run in r1 r2; do
    LOCKSTEP_STATE=$site "$LOCKSTEP" why --replay --json $run >"$TAP/why" 2>"$TAP/err"
    is "the log of $run replays alone" "$(sed -n 's/.*"different": *\([0-9]*\).*/\1/p' "$TAP/why")" 0
done
done_testing
