#!/bin/sh
# A run says itself on which node its ranks are, and with which pids.  One that names another user's process, or a node that it
# is not on, learns nothing: root's daemon says whose the process is, and whose runs are there.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"
frames=$BUILD/test/node-frames

list() { "$frames" list "$site/runs/$1/log.lsf" 2>/dev/null; }
told() { list "$1" | grep -q "^root $2"; }
send() # RUN: the frames in $TAP/body, with the token of the run
{
    curl -s -o "$TAP/out" -w '%{http_code}' -K "$(bearer "$site/runs/$1/agent.token")" --data-binary @"$TAP/body" \
        "$url/api/v1/frames?run=$1"
}

mkdir -m 700 "$state"
mkfifo "$TAP/kmsg"
exec 7<>"$TAP/kmsg"
control_start
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >"$TAP/out"
install -m 600 "$site/nodes/n1.token" "$state/node.token"
daemon_start --kmsg "$TAP/kmsg"
train $ada work 2000
await has_steps work.u$ada 5
tap_result $? "ada trains on n1"
victim=$(ps -eo pid=,uid=,comm= | awk -v u=$ada '$2 == u && $3 ~ /lockstep/ { print $1 }' | while read -r pid; do
    grep -q trainer "/proc/$pid/cmdline" && echo "$pid"; done | head -n 1)

# bob may register runs.  His says that ada's process is its rank, on her node; another says so under her run's name.
for run in forged "work.u$bob"; do
    curl -s -o "$TAP/out" -K "$(bearer "$site/tokens/launch.token")" -d "{\"run\":\"$run\"}" "$url/api/v1/runs"
    { "$frames" ring n1 0 "$victim"; "$frames" ring n1 1 "$victim"; } >"$TAP/body"
    is "bob's run $run claims her process" "$(send "$run")" 200
done
# And he is on the node himself, with a run that claims it, too.
train $bob own 2000
await has_steps own.u$bob 5
{ "$frames" ring n1 0 "$victim"; "$frames" ring n1 1 "$victim"; } >"$TAP/body"
send own.u$bob >"$TAP/status"

echo "3,1,1000000,-;NVRM: Xid (PCI:0000:3b:00): 13, pid=$victim, name=python, Graphics Exception" >&7
await told work.u$ada 13
tap_result $? "what root observes of ada's process is in her run"
echo "3,2,9000000,-;NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus." >&7
await told work.u$ada 79
tap_result $? "and what it observes of the node"
await told own.u$bob 79
tap_result $? "which bob's run on that node learns as well"
for run in forged "work.u$bob" "own.u$bob"; do
    is "of her process bob's run $run learns nothing" "$(list "$run" | grep -c '^root 13')" 0
done
for run in forged "work.u$bob"; do
    is "nor of a node that $run is not on" "$(list "$run" | grep -c '^root')" 0
done
done_testing
