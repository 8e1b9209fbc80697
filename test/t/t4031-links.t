#!/bin/sh
# Nodes with networks of their own, and a link that becomes slow or is cut.  Needs root and iproute2.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"
. "$SOURCE/test/t/demo.sh"

[ "$(id -u)" = 0 ] || skip_all "network namespaces need root"
command -v ip >/dev/null && command -v tc >/dev/null || skip_all "no ip or tc here (iproute2)"
unshare -n true 2>"$TAP/err" || skip_all "no network namespaces here: $(head -1 "$TAP/err")"

exits 2 "one node has no link" "$LOCKSTEP" demo --fault slow-link
has "that is said" "needs 2 nodes or more" "$TAP/err"
timed demo_says sync-stall nic nodes '["n2"]' slow \
    --nodes 4 --layout pp=4 --steps 60 --step-ms 100 --host-work-ms 1 --fault slow-link:node=2,step=20
timed demo_says hang fabric ranks "[]" cut --nodes 2 --steps 40 --step-ms 60 --fault link-down:node=1,step=15
timed demo_says hang fabric ranks "[]" cut-pipeline \
    --nodes 2 --layout pp=2,dp=2 --steps 40 --step-ms 60 --fault link-down:node=1,step=15

# Nothing is left of it when the demo has no time to clean up: a namespace without a name is there as long as a
# process is in it.
"$LOCKSTEP" demo --json --name killed --ranks 2 --nodes 2 --steps 1000 --fault link-down:node=1,step=900 \
    >"$TAP/out" 2>"$TAP/err" &
demo_pid=$!
await test -s "$LOCKSTEP_STATE/runs/killed/out/rank-0.log"
own=$(readlink /proc/self/ns/net)
inside() # ranks of that run that live in a network of their own
{
    for process in /proc/[0-9]*; do
        { grep -q "$LOCKSTEP_STATE" "$process/environ"; } 2>/dev/null || continue
        space=$(readlink "$process/ns/net" 2>/dev/null) || continue
        [ "$space" = "$own" ] || echo "${process#/proc/} $space"
    done
}
is "two ranks live in networks of their own" "$(inside | cut -d' ' -f2 | sort -u | wc -l)" 2
spaces=$(inside | sed -n 's/.*net:\[\([0-9]*\)\]$/\1/p' | sort -u)
kill -9 $demo_pid
wait $demo_pid 2>/dev/null
nobody_inside() { [ -z "$(inside)" ]; }
await nobody_inside
is "a killed demo leaves nobody in them" "$(inside)" ""
named() { for name in /run/netns/*; do stat -c %i "$name" 2>/dev/null; done | grep -cxF "$spaces"; } # others may make some, too
is "and no name" "$(named)" 0
done_testing
