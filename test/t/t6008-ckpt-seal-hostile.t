#!/bin/sh
# Directories that were made to harm a reader: links, pipes, names with escapes, headers without end.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
seal() # NAME REASON: $TAP/h is refused
{
    exits 1 "$1 is refused" timeout 20 "$LOCKSTEP" ckpt seal "$TAP/h"
    has "$1: with the reason" "$2" "$TAP/out"
    lacks "$1: nothing that a terminal would execute" "$(printf '[\001-\010\033]')" "$TAP/out"
    rm -rf "$TAP/h"
    mkdir "$TAP/h"
}
mkdir "$TAP/h"
echo secret >"$TAP/outside"
ln -s "$TAP/outside" "$TAP/h/model.pt"
seal "a link" 'model.pt: a symbolic link'
mkdir "$TAP/other" && ln -s "$TAP/other" "$TAP/h/dir"
seal "a link to a directory" 'dir: a symbolic link'
ln -s . "$TAP/h/loop"
seal "a link to itself" 'loop: a symbolic link'
mkfifo "$TAP/h/model.safetensors"
seal "a FIFO" 'model.safetensors: a FIFO'
printf x >"$TAP/h/$(printf 'a\033[2Jb.pt')"
seal "a name with an escape" 'a\?\[2Jb.pt: the name'
printf x >"$TAP/h/$(printf 'a\nb')"
seal "a name with a newline" 'the name is'
printf x >"$TAP/h/$(printf 'a\377')"
seal "a name that is no UTF-8" 'the name is'
mkdir -p "$TAP/h/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"
seal "a deep directory" 'too deep'
printf '\377\377\377\377\377\377\377\177{}' >"$TAP/h/a.safetensors"
seal "a giant header" 'a.safetensors: a header of 9223372036854775807 bytes'
printf '\001\341\365\005\000\000\000\000{}' >"$TAP/h/a.safetensors"
seal "a header beyond the limit" 'a.safetensors: a header of 100000001 bytes'
printf '\040\000\000\000\000\000\000\000{"\\u001b[2J": {"dtype": 1}}     ' >"$TAP/h/a.safetensors"
seal "a tensor with an escape in its name" 'not valid'
python3 -c 'import struct,sys; t=b"["*1000000; sys.stdout.buffer.write(struct.pack("<Q",len(t))+t)' >"$TAP/h/a.safetensors"
seal "a header without end" 'a.safetensors: header: '
printf 'PK\003\004 and no more' >"$TAP/h/a.pt"
seal "a short zip" 'a.pt: truncated'
python3 -c 'import sys; sys.stdout.buffer.write(b"PK\3\4"+bytes(range(1,100))*9)' >"$TAP/h/a.pt"
seal "a zip without an end" 'a.pt: truncated: the zip archive has no end record'
python3 -c 'import sys; sys.stdout.buffer.write(b"PK\3\4"+b"x"*50+b"PK\5\6"+bytes(8)+b"\xf0\0\0\0"+bytes(6))' >"$TAP/h/a.pt"
seal "a zip whose directory is larger than the file" 'the directory of the zip archive is missing'

# The seal itself: a link there is neither read nor written through.
echo x >"$TAP/h/file"
ln -s "$TAP/outside" "$TAP/h/lockstep.seal.tmp"
ok "a link in place of the temporary file is replaced" "$LOCKSTEP" ckpt seal "$TAP/h"
is "and not written through" "$(cat "$TAP/outside")" secret
ok "the seal is a file" test -f "$TAP/h/lockstep.seal"
rm "$TAP/h/lockstep.seal"
ln -s "$TAP/outside" "$TAP/h/lockstep.seal"
exits 1 "a link in place of the seal is not read" "$LOCKSTEP" ckpt verify "$TAP/h"
rm "$TAP/h/lockstep.seal"
mkfifo "$TAP/h/lockstep.seal"
exits 1 "nor is a FIFO waited for" timeout 20 "$LOCKSTEP" ckpt verify "$TAP/h"
mkdir "$TAP/own" && mkdir "$TAP/own/step-1"
exits 3 "a directory of our own points is not sealed" "$LOCKSTEP" ckpt seal "$TAP/own"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    rm -rf "$TAP/h" && mkdir -p "$TAP/h/mount"
    echo x >"$TAP/h/file"
    exits 1 "another file system is not entered" unshare -m sh -c \
        "mount -t tmpfs none '$TAP/h/mount' && '$LOCKSTEP' ckpt seal '$TAP/h'"
    has "with the reason" 'mount: another file system' "$TAP/out"
else
    skip "another file system is not entered" "cannot mount here"
fi
done_testing
