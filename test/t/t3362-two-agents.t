#!/bin/sh
# One run on two nodes, each with an agent that carries out orders for its own ranks: the step of a checkpoint lies beyond what
# the ranks of either node have begun, so that all save at the same one, also when one agent gets its order late.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

site=$TAP/site me=$(id -u) control='' pids=''
trap 'kill -9 $control $pids 2>/dev/null; rm -rf "$TAP"' EXIT
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
LOCKSTEP_CONTROL=$(cat "$site/control.url") LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token
MASTER_ADDR=127.0.0.1 MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE MASTER_ADDR MASTER_PORT
for node in 0 1; do
    mkdir -p -m 700 "$TAP/shm$node" "$TAP/shm$node/lockstep-$me" "$TAP/shm$node/lockstep-$me/work"
    "$LOCKSTEP" agent --every-run --every-root "$TAP/shm$node" --state "$TAP/agents$node" --node "n$node" 2>"$TAP/daemon$node.err" &
    daemon1=$! # of the last one
    pids="$pids $!"
    RANK=$node WORLD_SIZE=2 LOCKSTEP_DIR=$TAP/shm$node/lockstep-$me/work "$LOCKSTEP" trainer --steps 100000 --step-ms 20 \
        --checkpoint-dir "$TAP/saved" --checkpoint-every 1000000 >"$TAP/rank-$node" 2>&1 &
    pids="$pids $!"
done
run=work.u$me
nodes() { curl -sf -K "$(bearer "$site/tokens/reader.token")" "$LOCKSTEP_CONTROL/api/v1/runs/$run/nodes" >"$TAP/nodes" && grep -q n0 "$TAP/nodes" && grep -q n1 "$TAP/nodes"; }
await nodes
tap_result $? "one run with ranks on two nodes"
one_step() { [ "$(sed -n 's/^rank [01]: saved at step //p' "$TAP/out" | uniq -c | tr -s ' ' | cut -d ' ' -f 2)" = 2 ]; }

for trial in 1 2; do
    ok "a checkpoint on request ($trial)" "$LOCKSTEP" request checkpoint "$run"
    one_step
    tap_result $? "both nodes save at one step ($trial)"
done
# The agent of one node is stopped while the order is given: the delay is part of the next estimate.
agent=$(pgrep -P "$daemon1" | head -n 1)
kill -STOP "$agent"
"$LOCKSTEP" request checkpoint "$run" >"$TAP/out" 2>"$TAP/err" &
asker=$!
await grep -q 'ordered for the end of step' "$TAP/err"
kill -CONT "$agent"
wait $asker
is "with a late agent it is done as well" $? 0
one_step
tap_result $? "at one step by both"
# shellcheck disable=SC2046 # two files
python3 "$SOURCE/test/t/outcomes.py" "$site/runs/$run/log.lsf" $(find "$TAP/agents0" "$TAP/agents1" -name 'agent-n?.lsf') >"$TAP/out" 2>"$TAP/err"
is "each order was carried out at most once on each node" $? 0
done_testing
