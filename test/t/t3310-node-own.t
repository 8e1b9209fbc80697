#!/bin/sh
# The daemon of a node for one's own runs: no rights are needed, and none are given up.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

site=$TAP/site root=$TAP/shm state=$TAP/agents me=$(id -u)
control='' daemon='' trainer=''
leave()
{
    for pid in $daemon $trainer $control; do kill -9 "$pid" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$TAP"
}
trap leave EXIT
mkdir -p -m 700 "$root" "$root/lockstep-$me" "$root/lockstep-$me/work" "$root/lockstep-$me/empty"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
LOCKSTEP_CONTROL=$(cat "$site/control.url")
LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token
export LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE
exits 2 "no runs at all make no sense" "$LOCKSTEP" agent --every-run --runs-max 0
start() { "$LOCKSTEP" agent --every-run --every-root "$root" --state "$state" --node n1 2>>"$TAP/daemon.err" & daemon=$!; }
start
await test -d "$state/runs"
exits 3 "two daemons do not share a state directory" "$LOCKSTEP" agent --every-run --every-root "$root" --state "$state"
has "and it says so" 'another node daemon is using it' "$TAP/err"
is "the directory is nobody else's" "$(stat -c %a "$state")" 700
RANK=0 WORLD_SIZE=1 LOCKSTEP_DIR=$root/lockstep-$me/work "$LOCKSTEP" trainer --steps 60 --step-ms 50 --host-work-ms 0 \
    >/dev/null 2>&1 &
trainer=$!
has_steps() { LOCKSTEP_STATE=$site "$LOCKSTEP" why --json "work.u$me" >"$TAP/out" 2>"$TAP/err"; [ "$(number steps)" -ge "$1" ] 2>/dev/null; }
await has_steps 60
is "a run is watched" "$(number steps)" 60
is "an empty directory is none" "$(find "$state/runs" -name 'empty*' | wc -l)" 0
# What an agent leaves when it is killed is sent and removed all the same.
agent=$(pgrep -P $daemon | head -n 1)
kill -STOP "$agent"
rm -rf "$root/lockstep-$me/work"
gone() { [ -z "$(ls "$state/runs")" ]; }
await gone
tap_result $? "when the rings are gone nothing stays, also of an agent that does not end"
kill -TERM $daemon
wait $daemon
is "it ends in order" $? 0
# Names that no daemon made are left alone.
mkdir -p "$state/runs/strange/spool"
: >"$state/runs/strange/spool/file"
start
await grep -q 'ignoring .*strange' "$TAP/daemon.err"
tap_result $? "a directory that is not a run is ignored, and named"
is "and stays" "$(ls "$state/runs/strange/spool")" file
kill -TERM $daemon
wait $daemon
is "it ends in order again" $? 0
daemon=''
done_testing
