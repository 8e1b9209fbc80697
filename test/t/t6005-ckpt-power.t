#!/bin/sh
# The power fails at a system call of the writer: what was reported as written is there afterwards, and nothing partial is
# accepted.  On ext4 and xfs.  LOCKSTEP_TEST_CUTS: how many cuts on both together; "all": at every call.
# SPDX-License-Identifier: Apache-2.0
if [ "$(id -u)" = 0 ] && [ -z "${LOCKSTEP_OWN_MOUNTS-}" ]; then
    # Mounts that no other process sees, and so cannot hold after they were unmounted here.
    LOCKSTEP_OWN_MOUNTS=1 unshare -m true 2>/dev/null && LOCKSTEP_OWN_MOUNTS=1 exec unshare -m sh "$0"
fi
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
power=$BUILD/test/ckpt-power
cuts=${LOCKSTEP_TEST_CUTS:-12}

[ "$(id -u)" = 0 ] || skip_all "a disk of its own needs root"
nm -D "$BUILD/liblockstep-ckpt.so" | grep -Eq '__(asan|tsan)' && skip_all "built with a sanitizer"
disks=0 disk= at=$TAP/mnt
mkdir "$at"
leave()
{
    umount "$at" 2>/dev/null || umount -l "$at" 2>/dev/null
    rm -rf "$TAP"
}
trap leave EXIT

unmounted() { ! grep -qF " $at " /proc/mounts || umount "$at"; }
fresh() # TYPE
{
    await unmounted || return 1
    rm -f "$disk"
    disks=$((disks + 1)) disk=$TAP/disk.$disks # never one that a loop device may still hold
    cp --sparse=always "$TAP/$1.image" "$disk"
    mount -o loop "$disk" "$at"
}

# One cut: 0 if what is left is right.
cut() # TYPE NUMBER
{
    fresh "$1" || return 1
    "$power" "$2" "$at" "$train" "$at/ckpt" steps=2 mb=1 wait=written >"$TAP/log" 2>&1
    code=$?
    [ $code = 0 ] || [ $code = 4 ] || return 1
    await unmounted && await mount -o loop "$disk" "$at" || return 1
    written=$(sed -n 's/^written //p' "$TAP/log" | tail -n 1)
    "$LOCKSTEP" ckpt verify "$at/ckpt" --json >"$TAP/out" 2>"$TAP/err"
    code=$?
    newest=$(python3 -c 'import json, sys; p = json.load(open(sys.argv[1]))["points"]; print(p[0]["step"] if p else 0)' \
        "$TAP/out" 2>/dev/null || echo 0)
    if [ $code = 1 ] || grep -q refused "$TAP/out" || [ "${newest:-0}" -lt "${written:-0}" ]; then
        echo "# $1, call $2: verify exits $code, newest ${newest:-none}, written ${written:-none}" >&2
        return 1
    fi
    "$train" "$at/ckpt" steps=3 mb=1 >"$TAP/out" 2>&1 && grep -q '^written 3$' "$TAP/out"
}

for type in ext4 xfs; do
    size=24M
    [ $type = ext4 ] || size=320M
    if ! command -v mkfs.$type >/dev/null || ! truncate -s $size "$TAP/$type.image" ||
        ! mkfs.$type -q "$TAP/$type.image" >/dev/null 2>&1 || ! fresh $type 2>"$TAP/err"; then
        skip "power cuts on $type" "no $type on a loop device here"
        continue
    fi
    calls=$("$power" 0 "$at" "$train" "$at/ckpt" steps=2 mb=1 wait=written 2>/dev/null | tail -n 1)
    if ! [ "${calls:-0}" -gt 20 ]; then
        skip "power cuts on $type" "the writer cannot be traced here"
        continue
    fi
    if [ "$cuts" = all ]; then count=$calls; else count=$((cuts / 2)); fi
    bad=0 i=0
    while [ $i -lt "$count" ]; do
        # Others each time, spread over all calls.
        number=$((calls * i / count + 1))
        [ "$cuts" = all ] || number=$((number + $(od -An -N2 -tu2 /dev/urandom) % (calls / count)))
        cut $type $number || bad=$((bad + 1))
        i=$((i + 1))
    done
    is "$type: $count cuts at $calls calls: what was written is there, and nothing partial" $bad 0
done
done_testing
