#!/bin/sh
# Rings that nobody removed after their job cost no process, and their run goes on when another process comes.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

control_start
daemon_start --idle 1s
train $ada work 40
await has_steps work.u$ada 40
tap_result $? "a run is watched"
asleep() { ! has_agent $ada; }
await asleep
tap_result $? "its agent ends some time after its processes"
ok "what it has reported is kept" test -d "$state/runs/work.u$ada/spool"
train $ada work 30
await has_agent $ada
tap_result $? "a new process in the same directory has an agent again"
await has_steps work.u$ada 70
is "each step is told once" "$(number steps)" 70
is "no frame is lost" "$(number lost_frames)" 0
await asleep
as $ada rm -rf "$root/lockstep-$ada/work"
gone() { [ ! -e "$state/runs/work.u$ada" ]; }
await gone
tap_result $? "when the rings are gone, nothing stays behind"
daemon_stop
is "the daemon ends in order" $? 0
done_testing
