#!/bin/sh
# With a controller that does not answer the daemon ends at once, and what it did not send is sent by the next one.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

control_start
kill -STOP $control
daemon_start
train $ada work 40
await has_agent $ada
tap_result $? "a run is watched though nobody answers"
wait "$trainer"
is "its program has ended" $? 0
rest() { [ "$(find "$state" -name '*.lsf' -size +1k | wc -l)" = 1 ]; }
await rest
tap_result $? "its facts are in a spool"
as $ada rm -rf "$root/lockstep-$ada/work"
daemon_stop
is "the daemon ends" $? 0
kill -CONT $control
daemon_start
await has_steps work.u$ada 40
is "the next one sends all that the first had" "$(number steps)" 40
is "and loses no frame" "$(number lost_frames)" 0
gone() { [ -z "$(find "$state" -name 'work*')" ]; }
await gone
tap_result $? "then nothing is left behind"
# Killed with agents, in the middle of a run.
train $ada again 200
await has_steps again.u$ada 5
kill -9 $daemon
wait $daemon 2>/dev/null
daemon_start
await has_steps again.u$ada 60
tap_result $? "after a kill the next one goes on"
is "and tells nothing twice" "$(number lost_frames)" 0
kill -9 $daemon
wait $daemon 2>/dev/null
orphans() { ! ps -eo uid=,args= | awk -v u=$ada '$1 == u && /agent/' | grep -q .; }
await orphans
tap_result $? "no agent outlives a daemon that was killed"
daemon_start
await has_steps again.u$ada 200
is "each step is told once" "$(number steps)" 200
daemon_stop
is "the daemon ends in order" $? 0
done_testing
