#!/bin/sh
# The folder for GPU machines starts where nothing but libc is installed, finds its own parts, and is small.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

command -v patchelf >/dev/null || skip_all "no patchelf here"
ldd "$BUILD/lockstep" | grep -Eq 'lib(asan|tsan|ubsan)' && skip_all "built with a sanitizer"

ok "is made" "$SOURCE/tools/gpu-bundle" "$TAP/root/lockstep" "$BUILD"
exits 1 "is not made over another" "$SOURCE/tools/gpu-bundle" "$TAP/root/lockstep" "$BUILD"
has "which it names" "is there already" "$TAP/err"
exits 1 "is not made of a build that is none" "$SOURCE/tools/gpu-bundle" "$TAP/other" "$TAP"
has "and says what to do" "run make first" "$TAP/err"
exits 2 "says how it is used" "$SOURCE/tools/gpu-bundle"

ok "its program attaches its own Python package" env LOCKSTEP_STATE="$TAP/state" "$TAP/root/lockstep/lockstep" run \
    --name bundled -- sh -c 'echo "$PYTHONPATH"'
has "and no other" "$TAP/root/lockstep/bindings/python/lockstep/site" "$TAP/out"

for suite in "$TAP/root/lockstep/test/gpu"/*_check.py; do
    ok "$(basename "$suite") finds what it imports" python3 "$suite" --help
done

[ "$(id -u)" = 0 ] || { done_testing; exit; }
for name in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libresolv.so.2 libdl.so.2 libpthread.so.0 librt.so.1; do
    path=$(/sbin/ldconfig -p | awk -v name="$name" '$1 == name && /x86-64/ { print $NF; exit }')
    mkdir -p "$TAP/root/lib64" "$TAP/root/lib/x86_64-linux-gnu"
    cp -L "$path" "$TAP/root/lib/x86_64-linux-gnu/"
done
cp "$TAP/root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$TAP/root/lib64/"
# With /proc, by which the loader knows where a program lies.
mkdir "$TAP/root/proc" "$TAP/root/dev"
mknod -m 666 "$TAP/root/dev/null" c 1 3 2>/dev/null || { done_testing; exit; }
alone() { unshare -m sh -c 'mount -t proc proc "$1/proc" && exec /usr/sbin/chroot "$@"' sh "$TAP/root" "$@"; }
unshare -m true 2>/dev/null || { done_testing; exit; }
ok "starts where there is nothing but libc" alone /lockstep/lockstep version
has "and says what it is" "^lockstep [0-9]" "$TAP/out"
rm -r "$TAP/root/lockstep/lib"
exits 127 "and not without its libraries: nothing else was there" alone /lockstep/lockstep version
done_testing
