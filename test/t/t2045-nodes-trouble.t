#!/bin/sh
# One launcher on each node, in trouble that must not end a job or start two: two launchers have one name, one is stopped for some
# seconds, and the disk of the controller is full.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
. "$SOURCE/test/t/nodes.sh"

small=''
[ "$(id -u)" = 0 ] && mkdir -p "$TAP/site" && mount -t tmpfs -o size=6m,mode=700 lockstep-t "$TAP/site" 2>/dev/null && small=$TAP/site
leave()
{
    [ -z "${control:-}" ] || kill "$control" 2>/dev/null
    for node in n1 n2 n3; do
        for run in twice full; do
            pid=$(launcher $run $node 2>/dev/null)
            [ -z "$pid" ] || [ -s "$TAP/$run/$node.status" ] || kill "$pid" 2>/dev/null
        done
    done
    wait
    [ -z "$small" ] || umount "$small"
    rm -rf "$TAP"
}
trap leave EXIT

nodes_begin

# Two launchers say that they are n1, before and after the start.
launch twice n1 2 1 500
await grep -q joined "$TAP/twice/n1.err"
LOCKSTEP_STATE=$TAP/twice/other timeout -k 5 60 "$LOCKSTEP" run --name twice --nnodes 2 --node n1 -n 1 --lease 4s -- "$TAP/rank" "$TAP/twice" true \
    >"$TAP/out" 2>"$TAP/err"
is "a second launcher of one name is refused" $? 2
has "by name, with both addresses" 'another launcher of node n1 is in this run already, at 127.0.0.1; this one is at 127.0.0.1: give it another name with --node' "$TAP/err"
launch twice n2 2 1 500
await steps_beyond twice 20
paused=$(launcher twice n2)
kill -STOP "$paused"
sleep 3 # as long as a launcher may be stopped
kill -CONT "$paused"
await ended twice n1 n2
is "and the others do not notice" "$(cat "$TAP/twice/n1.status" "$TAP/twice/n2.status" | tr '\n' ' ')" '0 0 '
is "one attempt was enough, also for one that is stopped for 3 s" "$(grep -c ' attempt [0-9]*: ' "$TAP/twice/n1.err")" 1
whole twice
[ $tap_failed = 0 ] || show_run twice

# Nothing can be written for several leases, and the ranks go on.
if [ -z "$small" ]; then
    echo "# a small disk cannot be mounted here"
else
    launch full n1 2 1 5000 --lease 3s
    launch full n2 2 1 5000 --lease 3s
    await steps_beyond full 20
    is_full() { ! dd if=/dev/zero bs=4k count=1 >>"$site/ballast" 2>/dev/null; }
    dd if=/dev/zero of="$site/ballast" bs=64k 2>/dev/null
    await is_full
    await grep -q 'No space left' "$TAP/full/n1.err" "$TAP/control.err"
    now=$(steps_now full)
    await steps_beyond full $((now + 400)) # 8 s or more
    tap_result $? "with a full disk at the controller the job goes on"
    lacks "no launcher has ended its ranks" 'ending the ranks' "$TAP/full/n1.err"
    lacks "on no node" 'ending the ranks' "$TAP/full/n2.err"
    rm "$site/ballast"
    kill -9 "$(cat "$TAP"/full/pid.0.1.n2)"
    await grep -q ' attempt 1: ' "$TAP/full/n1.err"
    tap_result $? "and when there is room again, the controller decides again"
    kill -TERM "$(launcher full n1)" "$(launcher full n2)"
    await ended full n1 n2
    whole full
    [ $tap_failed = 0 ] || show_run full
fi
site_stop
done_testing
