#!/bin/sh
# Disks and kernels that fail: the training goes on, what is reported as written is right, and the reason is given.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
nm -D "$BUILD/liblockstep-ckpt.so" | grep -Eq '__(asan|tsan)' && skip_all "a sanitizer must be loaded first"

cleared() # the writer of the run before may still be at work in it
{
    rm -rf "$TAP/ckpt" && [ ! -e "$TAP/ckpt" ]
}

faulty() # FAULT WORD...: a fresh directory
{
    fault=$1
    shift
    await cleared
    LD_PRELOAD=$BUILD/test/libckpt-fault.so CKPT_FAULT=$fault "$train" "$TAP/ckpt" "$@"
}

ok "io_uring is not permitted" faulty uring steps=2 wait=verified
has "threads write instead, and the reason is given" \
    '^io pwrite threads O_DIRECT, because io_uring: Operation not permitted' "$TAP/out"
ok "and the point is right" "$LOCKSTEP" ckpt verify "$TAP/ckpt"
ok "O_DIRECT is refused" faulty direct steps=2 wait=verified
has "the page cache is used, and the reason is given" '^io buffered, because open: Invalid argument' "$TAP/out"
ok "and the point is right" "$LOCKSTEP" ckpt verify "$TAP/ckpt"
ok "writes are short" faulty uring,short steps=2 wait=verified mb=9
ok "and the point is right" "$LOCKSTEP" ckpt verify "$TAP/ckpt"
ok "writes are short, through the page cache" faulty uring,direct,short steps=2 wait=verified mb=9
ok "and the point is right" "$LOCKSTEP" ckpt verify "$TAP/ckpt"

for fault in fallocate uring,full; do
    ok "no room ($fault): the training goes on" faulty $fault steps=2 mb=9
    has "and the reason is given" '^failed 2: step 2: .*No space left on device' "$TAP/out"
    has "by the writer as well" 'lockstep-ckpt-writer: rank 0: step 2 is not saved: .*No space left' "$TAP/err"
    exits 3 "there is no point" "$LOCKSTEP" ckpt verify "$TAP/ckpt"
    is "and nothing left that takes room" "$(find "$TAP/ckpt" -type f)" ""
done

# EIO from each fsync in turn.  1: the directory, 2: tensors, 3, 4: manifest, 5, 6: COMMIT, 7: the name.
for n in 1 2 3 4 5 6 7; do
    ok "fsync $n fails: the training goes on" faulty fsync=$n steps=2
    has "the next save is written" '^written 2$' "$TAP/out"
    grep '^written' "$TAP/out" >"$TAP/written"
    if [ $n = 2 ]; then
        has "the tensors are written into a new file" '^written 1$' "$TAP/written"
    else
        has "the save is not reported as written, but its failure" '^failed 1: .*Input/output error' "$TAP/out"
    fi
    ok "the newest point is right" "$LOCKSTEP" ckpt verify --newest "$TAP/ckpt"
    has "and it is step 2" '^step 2  verified' "$TAP/out"
done

# A writer that is stopped: saves are skipped, nothing waits for it.
"$train" "$TAP/stopped" steps=60 wait=none pause=10 mb=2 >"$TAP/log" 2>&1 &
trainer=$!
has_writer() { grep -q '^writer [1-9]' "$TAP/log"; }
await has_writer
writer=$(sed -n 's/^writer //p' "$TAP/log")
kill -STOP "$writer"
wait $trainer
tap_result $? "the writer is stopped: the training goes on to its end"
has "saves are skipped, and the reason is given" \
    '^skipped [0-9]*: the disk is slower than the saves: 2 images are still being written' "$TAP/log"
kill -CONT "$writer"
gone() { ! kill -0 "$writer" 2>/dev/null; }
await gone
ok "afterwards it writes what it has" "$LOCKSTEP" ckpt verify "$TAP/stopped"

# A save that waits goes before reading back the one before: it is in memory only.
ok "reading back takes long" faulty uring,slow steps=2 mb=128 stale=1 wait=written behind=1
has "the next save is written first" '^behind 0$' "$TAP/out"
is "in both" "$(grep -c '^behind 0$' "$TAP/out")" 2
both_verified() { "$LOCKSTEP" ckpt ls "$TAP/ckpt" 2>/dev/null | grep -c ' verified ' | grep -qx 2; }
await both_verified
tap_result $? "and then both are read back"

# One of two ranks has no room: the other one learns it, and what it wrote does not take the room of the next save.
rm -rf "$TAP/two"
LD_PRELOAD=$BUILD/test/libckpt-fault.so CKPT_FAULT=fallocate "$train" "$TAP/two" rank=0 world=2 job=5 steps=1 restore=none \
    >"$TAP/out0" 2>&1 &
"$train" "$TAP/two" rank=1 world=2 job=5 steps=1 restore=none >"$TAP/out1" 2>&1
tap_result $? "a rank whose disk is full fails the save of the others, and no training"
wait
has "which get its reason" '^failed 1: step 1: rank 0 could not save it: .*No space left on device' "$TAP/out1"
is "and remove what they wrote" "$(find "$TAP/two" -name '*.safetensors')" ""
ok "ls" "$LOCKSTEP" ckpt ls "$TAP/two"
has "names the rank" 'incomplete .*rank 0 could not save it: .*No space left' "$TAP/out"
for rank in 0 1; do
    "$train" "$TAP/two" rank=$rank world=2 job=6 steps=1 restore=none >"$TAP/out$rank" 2>&1 &
done
wait
is "the next start has room, and saves that step" "$(grep -c '^written 1$' "$TAP/out0" "$TAP/out1" | cut -d: -f2 | tr '\n' ' ')" "1 1 "
ok "and right" "$LOCKSTEP" ckpt verify "$TAP/two"

# A process that loads data outlives its trainer, and holds everything open that was open when it was forked.
"$train" "$TAP/child" steps=1000000 mb=2 keep=2 pause=5 child=1 wait=verified >"$TAP/log" 2>&1 &
trainer=$!
has_point() { grep -q '^verified 2$' "$TAP/log"; }
await has_point
writer=$(sed -n 's/^writer //p' "$TAP/log") child=$(sed -n 's/^child //p' "$TAP/log")
kill -9 $trainer
wait $trainer 2>/dev/null
await gone
tap_result $? "the writer ends with its trainer, although a child of the trainer lives"
kill -0 "$child" 2>/dev/null
tap_result $? "which does"
kill -9 "$child"

# The writer cannot be found.
exits 3 "without a writer nothing is opened" env LOCKSTEP_CKPT_WRITER=/nonexistent/writer "$train" "$TAP/none"
has "and the reason is given" '^not opened: LOCKSTEP_CKPT_WRITER: /nonexistent/writer: No such file' "$TAP/out"

# A user without rights, as in a container: no io_uring, little locked memory, a small /dev/shm.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null && command -v setpriv >/dev/null; then
    mkdir -m 0777 "$TAP/open"
    chmod 0755 "$TAP"
    cat >"$TAP/poor.sh" <<END
mount -t tmpfs -o size=64m none /dev/shm || exit 9
ulimit -l 64
export LD_PRELOAD=$BUILD/test/libckpt-fault.so CKPT_FAULT=uring
exec setpriv --reuid 65534 --regid 65534 --clear-groups $train $TAP/open/ckpt steps=2 mb=80 wait=verified
END
    if setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$train"; then
        ok "a user without rights, io_uring and shared memory saves" unshare -m sh "$TAP/poor.sh"
        ok "and the points are right" "$LOCKSTEP" ckpt verify "$TAP/open/ckpt"
    else
        skip "a user without rights saves" "the build directory is not open to other users"
    fi
else
    skip "a user without rights saves" "needs root and a mount namespace"
fi
done_testing
