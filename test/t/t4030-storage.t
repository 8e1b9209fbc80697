#!/bin/sh
# A file system of our own under the job's files: slow for checkpoints, slow for batches, silent to one rank.
# Needs root and /dev/fuse.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"
. "$SOURCE/test/t/demo.sh"

[ "$(id -u)" = 0 ] || skip_all "mounting needs root"
[ -c /dev/fuse ] || skip_all "no /dev/fuse here"
unshare -m true 2>"$TAP/err" || skip_all "no mount namespaces here: $(head -1 "$TAP/err")"

timed demo_says checkpoint-stall storage ranks "[]" checkpoints \
    --step-ms 60 --steps 40 --checkpoint-every 6 --fault slow-storage:ms=150,step=20
timed demo_says input-stall storage ranks "[]" batches --step-ms 60 --steps 70 --fault slow-dataset:ms=40,step=20
timed demo_says straggler storage ranks "[1]" loader --step-ms 60 --steps 70 --fault slow-dataset:ms=40,step=20,rank=1
timed demo_says hang storage ranks "[2]" silent --step-ms 60 --steps 30 --fault stuck-storage:rank=2,step=15

# Nothing is left of it when the demo has no time to clean up.
TMPDIR=$TAP "$LOCKSTEP" demo --json --name killed --ranks 2 --steps 1000 --fault stuck-storage:rank=1,step=15 \
    >"$TAP/out" 2>"$TAP/err" &
demo_pid=$!
await test -s "$LOCKSTEP_STATE/runs/killed/out/rank-0.log"
grep -q fuse.lockstep /proc/$demo_pid/mounts
tap_result $? "the job's files lie on it"
kill -9 $demo_pid
wait $demo_pid 2>/dev/null
unmounted() { ! grep -lq "$TAP.*fuse.lockstep" /proc/[0-9]*/mounts; }
await unmounted
is "a killed demo leaves no mount in any process" "$(grep -l "$TAP.*fuse.lockstep" /proc/[0-9]*/mounts 2>/dev/null)" ""
done_testing
