#!/bin/sh
# A daemon that was started from root's shell serves users: its environment is not theirs.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

mkdir -p -m 700 "$TAP/home" "$TAP/home/.config/lockstep"
printf 'agent:\n  tick: 50ms\n' >"$TAP/home/.config/lockstep/lockstep.yaml"
control_start
unset LOCKSTEP_CONFIG
HOME=$TAP/home XDG_CONFIG_HOME='' SECRET=root-only
export HOME XDG_CONFIG_HOME SECRET
cd "$TAP/home" || exit 1
daemon_start
train $ada work 40
await has_steps work.u$ada 10
tap_result $? "a run is watched though its user cannot read root's home"
pid=$(agents $ada | head -n 1)
tr '\0' '\n' <"/proc/$pid/environ" >"$TAP/out"
lacks "nothing of root's environment is in it" 'SECRET|TOKEN_FILE|home' "$TAP/out"
# The name that the program gives itself is the run's as well.
run_make $ada named
as $ada env RANK=0 WORLD_SIZE=1 LOCKSTEP_RUN=named LOCKSTEP_DIR="$root/lockstep-$ada/named" "$LOCKSTEP" trainer \
    --steps 40 --step-ms 50 --host-work-ms 0 >/dev/null 2>&1 &
pids="$pids $!"
await has_steps named.u$ada 10
tap_result $? "a program that says its run's name is watched, too"
done_testing
