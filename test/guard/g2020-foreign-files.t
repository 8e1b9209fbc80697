#!/bin/sh
# Neither what a user puts in the place of files nor what he does to his agents holds up the daemon.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

control_start
daemon_start
# In the place of the directories of users and runs, and of rings.
as $ada mkdir -m 700 "$root/lockstep-$ada"
as $ada mkfifo "$root/lockstep-$ada/fifo"
as $ada ln -s /etc "$root/lockstep-$ada/link"
for kind in fifo link dir sparse; do
    run_make $ada "ring-$kind"
    ring=$root/lockstep-$ada/ring-$kind/rank-0.0.ring
    case $kind in
    fifo) as $ada mkfifo "$ring" ;;
    link) as $ada ln -s /etc/passwd "$ring" ;;
    dir) as $ada mkdir "$ring" ;;
    sparse) as $ada truncate -s 4T "$ring" ;;
    esac
done
as $bob mkfifo "$root/lockstep-$bob"
train $ada work 400
await has_steps work.u$ada 5
tap_result $? "a run is watched beside all kinds of files in the place of rings"
# A FIFO in the spool, by whatever way it came there, and in the place of the notes.
for spool in "$state/work.u$ada/agent/spool" "$state/runs/work.u$ada/spool"; do
    [ -d "$spool" ] || continue
    as $ada mkfifo "$spool/other.lsf" 2>/dev/null
    mkfifo "$spool/agent-other.lsf" "$spool/.agent-other.lsf.sent"
    chown $ada "$spool/agent-other.lsf" "$spool/.agent-other.lsf.sent"
    mkdir "$spool/directory.lsf"
    chown $ada "$spool/directory.lsf"
    truncate -s 4T "$spool/sparse.lsf"
    chown $ada "$spool/sparse.lsf"
done
as $ada rm -rf "$root/lockstep-$ada/work"
train $ada other 400
await has_steps other.u$ada 5
tap_result $? "the next run is watched"
# Nothing that is not a spool is sent: it cannot be read, and the run stays, but nobody waits for it.
stays() { grep -q 'run work.u.*rings are gone' "$TAP/daemon.err"; }
await stays
tap_result $? "the end of the first is noticed"
kill -STOP $(agents $ada)
daemon_stop
is "agents that their user stopped do not hold up the daemon's end" $? 0
left=$(ps -eo uid=,args= | awk -v u=$ada '$1 == u && /agent/' | wc -l)
is "nor do they outlive it" "$left" 0
done_testing
