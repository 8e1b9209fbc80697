#!/bin/sh
# An agent locks the directory that it reads; a lock of another user does not pass for one.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

command -v flock >/dev/null || skip_all "no flock here"
control_start
as $ada sh -c 'umask 022 && mkdir -p "$0"' "$root/lockstep-$ada/work"
as $bob flock "$root/lockstep-$ada/work" sleep 1000 &
pids="$pids $!"
held() { ! flock -n "$root/lockstep-$ada/work" true; }
await held
tap_result $? "another user has locked the directory"
daemon_start
train $ada work 60
await has_steps work.u$ada 20
tap_result $? "its run is watched all the same"
# A lock that nobody else can hold says that there is an agent.
as $ada sh -c 'umask 077 && mkdir -p "$0"' "$root/lockstep-$ada/own"
as $ada flock "$root/lockstep-$ada/own" sleep 1000 &
pids="$pids $!"
held() { ! flock -n "$root/lockstep-$ada/own" true; }
await held
train $ada own 200
train $ada later 60
await has_steps later.u$ada 20
tap_result $? "a later one is watched"
is "but not the one that its user has locked" "$(find "$state" -name 'own*' | wc -l)" 0
done_testing
