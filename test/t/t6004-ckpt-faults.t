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
