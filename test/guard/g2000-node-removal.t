#!/bin/sh
# A user who exchanges a directory for a link while the daemon of the node clears up has nothing of root's removed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

RUNS=12
mkdir -m 755 "$TAP/precious"
i=0
while [ $i -lt 60 ]; do : >"$TAP/precious/file-$i" && i=$((i + 1)); done
control_start
daemon_start
i=0
while [ $i -lt $RUNS ]; do
    run_make $ada "work-$i"
    as $ada "$hostile" ring "$root/lockstep-$ada/work-$i/rank-0.0.ring" 0 1
    # Wherever the daemon keeps something that the user could write to.
    for spool in "$state/work-$i.u$ada/agent/spool" "$state/runs/work-$i.u$ada/spool"; do
        as $ada "$hostile" exchange "$spool" "$TAP/precious" &
        pids="$pids $!"
    done
    i=$((i + 1))
done
served() { [ "$(find "$state" -name spool -type d | wc -l)" -ge $RUNS ]; }
await served
tap_result $? "all runs are served"
registered() { [ "$(find "$site" -type d -name 'work-*' | wc -l)" -ge $RUNS ]; }
await registered
tap_result $? "and registered"
as $ada rm -rf "$root/lockstep-$ada"
gone() { [ -z "$(find "$state" -name 'work-*' -maxdepth 2)" ]; }
await gone
tap_result $? "when their rings are gone nothing is left of them"
is "no file of root's is gone" "$(find "$TAP/precious" -name 'file-*' | wc -l)" 60
daemon_stop
is "the daemon ends in order" $? 0
done_testing
