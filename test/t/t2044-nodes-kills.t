#!/bin/sh
# One launcher on each of two nodes, and a spare; again and again some process is killed: a rank, a launcher, a keeper, both, an agent, the
# processes that send facts and wait for orders, the controller.  The job ends with the right result all the same.
# A launcher that was killed is started again, as a scheduler would do.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
. "$SOURCE/test/t/nodes.sh"

rounds=${NODES_KILLS:-6} steps_all=${NODES_STEPS:-400}
nodes_begin
launch calm n1 2 1 "$steps_all"
launch calm n2 2 1 "$steps_all"
await ended calm n1 n2
want=$(digest calm)

launch wild n1 2 1 "$steps_all" --lease 4s --max-restarts 99
launch wild n2 2 1 "$steps_all" --lease 4s --max-restarts 99
launch wild n3 2 1 "$steps_all" --lease 4s --max-restarts 99
node_ended() { [ -s "$TAP/wild/$1.status" ]; }
again() # those that have ended before the run
{
    for node in n1 n2 n3; do
        node_ended $node && [ -z "$(digest wild)" ] || continue
        rm "$TAP/wild/$node.status"
        cat "$TAP/wild/$node.err" >>"$TAP/wild/$node.all"
        launch wild $node 2 1 "$steps_all" --lease 4s --max-restarts 99
    done
}
seed=${NODES_SEED:-7}
random() # BELOW
{
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}
strike() # some process of some node
{
    random 3
    victim=n$((drawn + 1))
    random 8
    case $drawn in
    0) hit=$(cat "$TAP"/wild/pid.*."$victim" 2>/dev/null | tail -n 1) ;;
    1) hit=$(launcher wild $victim) ;;
    2) hit=$(keeper wild $victim) ;;
    3) hit="$(launcher wild $victim) $(keeper wild $victim)" ;;
    4) hit=$(child wild $victim send) ;;
    5) hit=$(child wild $victim orders) ;;
    6) hit=$(child wild $victim agent) ;;
    7) hit=$control ;;
    esac
    echo "# $victim: $drawn: $hit"
    kill -9 $hit 2>/dev/null
    [ "$hit" = "$control" ] || return 0
    wait $control 2>/dev/null
    site_again
}
began=$(date +%s)
for i in $(seq "$rounds"); do
    now=$(steps_now wild)
    await steps_beyond wild $((${now:-0} + 5)) || break
    [ -z "$(digest wild)" ] || break
    strike
    again
done
over() { again; [ -n "$(digest wild)" ]; }
await over || await over
is "after $rounds kills the result is right" "$(digest wild)" "$want"
await ended wild n1 n2 n3
is "all launchers end" "$(cat "$TAP"/wild/n?.status | sort -u)" 0
whole wild
[ $tap_failed = 0 ] || tail -n 30 "$TAP"/wild/*.all "$TAP"/wild/*.err >&2
echo "# $(($(date +%s) - began)) s, attempts: $(cat "$TAP"/wild/n?.err "$TAP"/wild/n?.all 2>/dev/null | sed -n 's/.*: attempt \([0-9]*\): .*/\1/p' | sort -n | tail -n 1)"
site_stop
done_testing
