#!/bin/sh
# -1 is no user's id: to the kernel it means "leave it as it is", which for root's daemon would be root.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

control_start
for name in 4294967295 -1 +5 0x5 99999999999; do
    as $bob mkdir -p -m 700 "$root/lockstep-$name/run"
    printf KLSRING1 >"$TAP/ring" && chmod 644 "$TAP/ring"
    as $bob cp "$TAP/ring" "$root/lockstep-$name/run/rank-0.0.ring"
done
daemon_start
train $ada work 60
await has_steps work.u$ada 20
tap_result $? "a run of a user is watched"
is "nothing else is" "$(ls "$state/runs")" "work.u$ada"
lacks "and nothing was tried" 'cannot change to user|cannot start an agent' "$TAP/daemon.err"
daemon_stop
is "the daemon ends in order" $? 0
done_testing
