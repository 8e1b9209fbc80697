#!/bin/sh
# A drill of a job with a launcher on each node: a node is lost, its link is cut, a checkpoint is damaged, the disk is full.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

command -v python3 >/dev/null || skip_all "python3 finds a free port and reads the score"
if [ -z "${DRILL_MOUNTED-}" ]; then
    # A file system of its own, that only this test sees.
    [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip_all "a file system of its own needs root"
    DRILL_MOUNTED=1 unshare --mount sh "$0"
    exit
fi
mkdir "$TAP/disk"
mount -t tmpfs -o size=8m none "$TAP/disk" || skip_all "no file system can be mounted here"
trap leave EXIT
pid_of() { sed -n 's/^ *"pid": *\([0-9]*\),$/\1/p' "$LOCKSTEP_STATE/runs/bound/nodes/$1/run.json"; }
leave()
{
    for node in n1 n2 n3 n4; do kill -TERM "$(pid_of $node)" 2>/dev/null; done
    wait
    umount "$TAP/disk"
    rm -rf "$TAP"
}
export LOCKSTEP_JOB_KEY=7d9c0f6be1a24c1e8f33
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start() # NODE
{
    timeout -k 5 400 "$LOCKSTEP" run --name bound --drill --trust-ends --nnodes 2 --node "$1" -n 2 --max-restarts 20 --backoff 100ms --grace 2s \
        --rdzv-endpoint 127.0.0.1:"$port" -- "$LOCKSTEP" trainer --steps 1000000 --step-ms 20 --host-work-ms 0 \
        --checkpoint-dir "$TAP/disk/points" >"$TAP/$1.out" 2>&1 &
    await grep -q joined "$TAP/$1.out"
}
for node in n1 n2 n3 n4; do start $node; done
drill() { "$LOCKSTEP" drill --json --wait 100s "$@" bound; }
score() { python3 -c 'import json,sys; d = json.load(open(sys.argv[1])); f = {x["fault"]: x for x in d["faults"]}; print(eval(sys.argv[2]))' "$TAP/out" "$1"; }
passed() { [ "$(score "[f[\"$1\"][k] for k in (\"skipped\", \"right\", \"passed\")]")" = '[False, True, True]' ]; }

ok "a node that is lost is replaced" drill --fault node-lost
passed node-lost
tap_result $? "with a right verdict"
is "at once: nobody waited for its lease" "$(score 'f["node-lost"]["detected_s"] < 4')" True
start n2 # or whichever was lost: a spare that is too many does no harm
ok "a node that is cut off is replaced" drill --fault link-cut
passed link-cut
tap_result $? "with a right verdict"
exits 3 "without the directory of checkpoints nothing is flipped" drill --fault checkpoint-corrupted
ok "a damaged checkpoint is refused" drill --fault checkpoint-corrupted --checkpoints "$TAP/disk/points"
passed checkpoint-corrupted
tap_result $? "and the job trains again"
exits 3 "no disk is filled that was not named" drill --fault disk-full --checkpoints "$TAP/disk/points"
ok "a full disk is a fault of the storage" drill --fault disk-full --checkpoints "$TAP/disk/points" --disk "$TAP/disk"
passed disk-full
tap_result $? "after which the job saves again"
[ $tap_failed = 0 ] || {
    cat "$TAP/out"
    grep -hv '] step ' "$TAP"/n?.out
} >&2
done_testing
