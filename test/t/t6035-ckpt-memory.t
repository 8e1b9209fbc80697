#!/bin/sh
# Little memory in the control group of a trainer: it is not killed, one image serves, and files that were read do not count.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
nm -D "$BUILD/liblockstep-ckpt.so" | grep -Eq '__(asan|tsan)' && skip_all "sanitizers take memory of their own"

root=/sys/fs/cgroup limit=memory.max
[ -e "$root/cgroup.controllers" ] || { root=/sys/fs/cgroup/memory limit=memory.limit_in_bytes; }
group=$root/lockstep-test-$$
mkdir "$group" 2>/dev/null || skip_all "no control groups can be made here"
trap 'rmdir "$group"' EXIT
[ -e "$group/$limit" ] || skip_all "control groups have no limit of memory here"

inside() # MB COMMAND...: with a limit
{
    echo $(($1 << 20)) >"$group/$limit"
    shift
    sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$group" "$@"
}

ok "an arena with two images, where there is room" inside 600 "$train" "$TAP/two" mb=100 steps=2 wait=verified
has "takes both" '^arena 2[0-9][0-9] MiB$' "$TAP/out"
ok "the group has room for one" inside 350 "$train" "$TAP/one" mb=100 steps=2 wait=verified
has "and one is taken" '^arena 1[0-9][0-9] MiB$' "$TAP/out"
ok "the group has no room at all" inside 200 "$train" "$TAP/none" mb=100 steps=2
has "the save is skipped, with the reason" '^skipped 1: an image needs 1[0-9][0-9] MiB, and [0-9]* MiB are available' "$TAP/out"

# A training reads its data: the page cache fills the group up to its limit, and gives way.
dd if=/dev/zero of="$TAP/data" bs=1M count=400 2>/dev/null
# shellcheck disable=SC2016 # the shell inside has the words
ok "a group that is full of files that were read" inside 400 sh -c 'cat "$1" >/dev/null; shift; exec "$@"' sh "$TAP/data" "$train" "$TAP/cache" mb=60 steps=2 wait=verified
has "has room for both images" '^arena 1[5-9][0-9] MiB$' "$TAP/out"
ok "and the points are right" "$LOCKSTEP" ckpt verify "$TAP/cache"
await rmdir "$group"
trap - EXIT
tap_result $? "nothing is left in the group"
done_testing
