#!/bin/sh
# Launchers of several nodes without a site's controller: the one that has the first address leads.  Nodes are network namespaces on
# a bridge.  The first node is cut off: the others go on with the next controller, it ends, and no two attempts run at once.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/nodes.sh"

[ "$(id -u)" = 0 ] || skip_all "network namespaces need root"
space=lockstep-$$
nodes='1 2 3'
ip netns add $space-hub 2>/dev/null || skip_all "network namespaces cannot be made here"
leave()
{
    for run in plain lost; do
        for node in n1 n2 n3; do
            pid=$(launcher $run $node 2>/dev/null)
            [ -z "$pid" ] || [ -s "$TAP/$run/$node.status" ] || kill -9 "$pid" 2>/dev/null
        done
    done
    wait
    for i in hub $nodes; do ip netns del $space-$i 2>/dev/null; done
    rm -rf "$TAP"
}
trap leave EXIT
ip -n $space-hub link add bridge type bridge 2>/dev/null || skip_all "bridges cannot be made here"
ip -n $space-hub link set bridge up
for i in $nodes; do
    ip netns add $space-$i
    ip -n $space-$i link set lo up
    ip -n $space-hub link add port$i type veth peer name eth0 netns $space-$i
    ip -n $space-hub link set port$i master bridge up
    ip -n $space-$i address add 192.0.2.$i/24 dev eth0
    ip -n $space-$i link set eth0 up
done

unset LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE
export LOCKSTEP_JOB_KEY=7d9c0f6be1a24c1e8f33
meet() # RUN NODE-NUMBER NODES ENDPOINTS STEPS
{
    mkdir -p "$TAP/$1"
    {
        LOCKSTEP_STATE=$TAP/$1/n$2 ip netns exec $space-$2 timeout -k 5 100 "$LOCKSTEP" run --name "$1" --nnodes "$3" --node n$2 --nproc-per-node 1 \
            --max-restarts 9 --backoff 0s --lease 4s --rdzv-endpoint "$4" -- "$TAP/rank" "$TAP/$1" "$LOCKSTEP" trainer --steps "$5" \
            --step-ms 20 >"$TAP/$1/n$2.out" 2>"$TAP/$1/n$2.err"
        echo $? >"$TAP/$1/n$2.status"
    } &
}

# One endpoint, and a launcher that does not have the key.
LOCKSTEP_JOB_KEY=another-key-of-somebody LOCKSTEP_STATE=$TAP/stranger ip netns exec $space-3 timeout -k 5 30 "$LOCKSTEP" run --name plain --nnodes 2 \
    --node n3 -n 1 --join-wait 8s --rdzv-endpoint 192.0.2.1:7001 -- true >"$TAP/out" 2>"$TAP/stranger.err" &
stranger=$!
meet plain 1 2 192.0.2.1:7001 100
meet plain 2 2 192.0.2.1:7001 100
await ended plain n1 n2
is "two nodes meet at the first" "$(cat "$TAP/plain/n1.status" "$TAP/plain/n2.status" | tr '\n' ' ')" '0 0 '
has "whose launcher leads" 'meet at https://192.0.2.1:7001: this one leads' "$TAP/plain/n1.err"
has "the other one joins it" 'meet at https://192.0.2.1:7001$' "$TAP/plain/n2.err"
has "MASTER_ADDR is an address that both reach" 'attempt 0: ranks 1 to 1 of 2 on n2, MASTER_ADDR=192.0.2.1' "$TAP/plain/n2.err"
lacks "a controller that takes a moment to start is no trouble" 'Failed to connect' "$TAP/plain/n1.err"
tr '\0' '\n' <"$TAP/plain/n2/environ" >"$TAP/out"
has "a rank has its variables" '^RANK=1' "$TAP/out"
lacks "and not the key" 'JOB_KEY|7d9c0f6be1a24c1e8f33' "$TAP/out"
export LOCKSTEP_STATE=$TAP/plain/n1
whole plain
"$LOCKSTEP" why --json plain >"$TAP/out" 2>"$TAP/err"
is "the leader's log has all ranks" "$(number ranks_seen)" 2
wait $stranger
is "a launcher with another key does not join" $? 1
has "and says so" 'pinned|has not answered' "$TAP/stranger.err"
[ $tap_failed = 0 ] || { show_run plain; tail -n 5 "$TAP/stranger.err" >&2; }

# All nodes could lead.  The first is cut off with its controller and its ranks.
all=192.0.2.1:7001,192.0.2.2:7001,192.0.2.3:7001
for i in $nodes; do meet lost $i 2:3 $all 200; done
await steps_beyond lost 20
tap_result $? "three nodes train"
ip -n $space-hub link set port1 down
await ended lost n2 n3
is "the other two end with success" "$(cat "$TAP/lost/n2.status" "$TAP/lost/n3.status" | tr '\n' ' ')" '0 0 '
has "the second leads" 'the controller is lost; the launchers meet at https://192.0.2.2:7001 now: this one leads' "$TAP/lost/n2.err"
has "the third follows" 'meet at https://192.0.2.2:7001 now' "$TAP/lost/n3.err"
has "both started again" 'attempt 1: ranks [01] to [01] of 2 on n3' "$TAP/lost/n3.err"
await ended lost n1
is "the first, alone, ends" "$(cat "$TAP/lost/n1.status")" 1
has "because half of the nodes may be elsewhere" '1 node is left, at least 2 needed' "$TAP/lost/n1.err"
is "no rank met one of an earlier attempt" "$([ -e "$TAP/lost/overlap" ] && echo met)" ''
"$LOCKSTEP" why --replay "$TAP/lost/n2/runs/lost/nodes/n2/control" >"$TAP/out" 2>"$TAP/err"
has "the log of the second controller replays" 'byte-equal' "$TAP/out"
[ $tap_failed = 0 ] || show_run lost
is "nothing is left running" "$(pgrep -f "$TAP/(plain|lost)/n" | wc -l)" 0
done_testing
