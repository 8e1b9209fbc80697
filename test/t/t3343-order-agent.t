#!/bin/sh
# A run without a launcher: the agent that the node daemon started for it carries out orders, once each, also when it is killed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

site=$TAP/site root=$TAP/shm state=$TAP/agents me=$(id -u)
control='' daemon='' ranks=''
trap 'kill -9 $control $daemon $ranks 2>/dev/null; rm -rf "$TAP"' EXIT
command -v python3 >/dev/null || skip_all "no python3 here"

mkdir -p -m 700 "$root" "$root/lockstep-$me" "$root/lockstep-$me/work"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
LOCKSTEP_CONTROL=$(cat "$site/control.url")
LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token
export LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE
"$LOCKSTEP" agent --every-run --every-root "$root" --state "$state" --node n1 2>"$TAP/daemon.err" &
daemon=$!
MASTER_ADDR=127.0.0.1 MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export MASTER_ADDR MASTER_PORT
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCKSTEP_DIR=$root/lockstep-$me/work "$LOCKSTEP" trainer --steps 100000 --step-ms 20 \
        --checkpoint-dir "$TAP/saved" --checkpoint-every 1000000 >"$TAP/rank-$rank" 2>&1 &
    ranks="$ranks $!"
done
run=work.u$me
known() { curl -sf -K "$(bearer "$site/tokens/reader.token")" "$LOCKSTEP_CONTROL/api/v1/runs/$run"; }
await known
ok "the agent of a node asks the ranks of a run without a launcher" "$LOCKSTEP" request checkpoint "$run"
is "which save at one step" "$(sed -n 's/^rank [01]: saved at step //p' "$TAP/out" | uniq -c | tr -s ' ' | cut -d ' ' -f 2)" 2
"$LOCKSTEP" request checkpoint --json "$run" >"$TAP/answer" 2>"$TAP/err" &
asker=$!
await grep -q 'request q-' "$TAP/err"
kill -9 "$(pgrep -P $daemon | head -n 1)"
wait $asker
is "an agent that is killed before the order is started again, and does it" $? 0
has "as this node" '"part": *"node n1"' "$TAP/answer"
spool=$(find "$state/runs" -name 'agent-n1.lsf')
cp "$spool" "$TAP/spool"
python3 "$SOURCE/test/t/outcomes.py" "$site/runs/$run/log.lsf" "$TAP/spool" >"$TAP/out" 2>"$TAP/err"
is "each order was carried out once" $? 0
has "both of them" '^2 ordered, 2 begun, 0 faults$' "$TAP/out"
done_testing
