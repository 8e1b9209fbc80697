#!/bin/sh
# A user's run on two nodes, each with a root daemon that reads its kernel log.  What the daemon of one node observes reaches
# the run by the site's log and is the cause in its verdict: that disk, that node.  A program's line in the other kernel log
# is none.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

line='nvme nvme0: I/O 832 QID 9 timeout, reset controller'
mkdir -m 700 "$TAP/kmsg"
mkfifo "$TAP/kmsg/n1" "$TAP/kmsg/n2"
exec 7<>"$TAP/kmsg/n1" 8<>"$TAP/kmsg/n2"
control_start
for node in n1 n2; do
    mkdir -m 700 "$TAP/agents-$node"
    mkdir -m 1777 "$TAP/shm-$node"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token $node >"$TAP/out"
    install -m 600 "$site/nodes/$node.token" "$TAP/agents-$node/node.token"
    LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" agent --every-run \
        --every-root "$TAP/shm-$node" --state "$TAP/agents-$node" --node $node --kmsg "$TAP/kmsg" 2>>"$TAP/daemon.err" &
    pids="$pids $!"
done

printf 'lockstep-plan 1\nnodes 2\nfault slow-input:rank=2,step=12,ms=60\n' >"$TAP/plan"
chmod 644 "$TAP/plan"
rendezvous=$((20000 + $$ % 20000))
for rank in 0 1 2 3; do
    rings=$TAP/shm-n$((rank / 2 + 1))/lockstep-$ada
    as $ada mkdir -p -m 700 "$rings" "$rings/work"
    as $ada env RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$rendezvous LOCKSTEP_DIR="$rings/work" \
        "$LOCKSTEP" trainer --steps 2000 --step-ms 40 --host-work-ms 0 --plan "$TAP/plan" >"$TAP/train-$rank.out" 2>&1 &
    pids="$pids $!"
done
await has_steps "work.u$ada" 30
tap_result $? "the site knows the run"
echo "12,9,904000000,-;$line" >&7
echo "3,9,904000000,-;$line" >&8

verdict() # EXPRESSION of v, the straggler's verdict
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" why --json "work.u$ada" >"$TAP/out" 2>"$TAP/err"
    python3 -c '
import json, sys
verdicts = [v for v in json.load(open(sys.argv[1]))["verdicts"] if v["kind"] == "straggler"]
print(eval(sys.argv[2], {"v": verdicts[0]}) if len(verdicts) == 1 else "%d verdicts" % len(verdicts))' "$TAP/out" "$1"
}
explained() { [ "$(verdict 'v["ranks"], v["device"]')" = "([2], 'nvme0')" ]; }
await explained
tap_result $? "the rank that waits for its data has the disk of its node as cause"
is "on that node" "$(verdict 'v["layer"], v["nodes"], v["cause"]')" "('storage', ['n2'], 'disk does not respond')"
is "as the kernel log says" "$(verdict '[x["source"] for x in v["because"] if "nvme0" in x["what"]]')" "['kernel log']"
"$BUILD/test/node-frames" origins "$site/runs/work.u$ada/log.lsf" | grep ' n2 ' >"$TAP/out"
is "the run's log has the finding" "$(sort -u "$TAP/out")" "kernel n2 nvme nvme0"
"$BUILD/test/node-frames" list "$site/runs/work.u$ada/log.lsf" >"$TAP/out"
lacks "sent by root alone" '^user' "$TAP/out"
curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/nodes/n1" >"$TAP/out"
has "the line of a program is in the records of its node, as such" 'user-written' "$TAP/out"
done_testing
