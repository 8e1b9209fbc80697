#!/bin/sh
# Launchers that are stopped for 3 s in turn, on a network that loses 5 % of all packets to and from the controller, and on whatever else this machine
# does: none is taken for dead, and no rank is ended.  LOCKSTEP_TEST_SECONDS, default 30.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
[ "$(id -u)" = 0 ] || skip_all "a network namespace needs root"
PATH=$PATH:/usr/sbin:/sbin
command -v nft >/dev/null || skip_all "nft is not installed"
if [ -z "${LOCKSTEP_TEST_NETWORK-}" ]; then
    unshare --net true 2>/dev/null || skip_all "a network namespace cannot be created here"
    rm -rf "$TAP" # made again by the test in its namespace
    LOCKSTEP_TEST_NETWORK=own exec unshare --net sh "$0"
fi
. "$SOURCE/test/t/site.sh"
. "$SOURCE/test/t/nodes.sh"
ip link set lo up
nodes_begin
trap 'kill $control $(launcher alive n1) $(launcher alive n2) 2>/dev/null; wait; rm -rf "$TAP"' EXIT
nft -f - <<END || skip_all "packets cannot be dropped here"
table ip loss {
    chain in {
        type filter hook input priority 0;
        tcp dport ${url##*:} numgen random mod 100 < 5 counter drop
        tcp sport ${url##*:} numgen random mod 100 < 5 counter drop
    }
}
END

mkdir "$TAP/alive"
for node in n1 n2; do
    LOCKSTEP_STATE=$TAP/alive/$node "$LOCKSTEP" run --name alive --nnodes 2 --node $node -n 1 --max-restarts 9 -- "$TAP/rank" "$TAP/alive" \
        "$LOCKSTEP" trainer --steps 100000000 --step-ms 20 >"$TAP/alive/$node.out" 2>"$TAP/alive/$node.err" &
done
await steps_beyond alive 20
tap_result $? "two nodes train"
stops=0 until=$(($(date +%s) + ${LOCKSTEP_TEST_SECONDS:-30}))
while [ "$(date +%s)" -lt "$until" ]; do
    node=n$((stops % 2 + 1))
    case $((stops % 3)) in
    0) stopped=$(launcher alive $node) ;;
    1) stopped=$(child alive $node send) ;;
    *) stopped=$(child alive $node orders) ;;
    esac
    kill -STOP "$stopped"
    sleep 3 # as long as a launcher may be stopped
    kill -CONT "$stopped"
    sleep 8 # what waits is sent meanwhile
    stops=$((stops + 1))
done
echo "# $stops stops; $(nft list table ip loss | sed -n 's/.*counter packets \([0-9]*\).*/\1/p' | paste -sd+ - | tr -d '\n') packets were lost"
[ "$(nft list table ip loss | sed -n 's/.*counter packets \([0-9]*\).*/\1/p' | sort -n | head -n 1)" -gt 0 ]
tap_result $? "packets were lost"
cat "$TAP/alive/n1.err" "$TAP/alive/n2.err" >"$TAP/err"
lacks "no node was taken for dead" 'is lost' "$TAP/err"
lacks "and no rank was ended" 'ending the ranks' "$TAP/err"
is "one attempt was enough" "$(grep -c ' attempt [0-9]*: ' "$TAP/alive/n1.err")" 1
done_testing
