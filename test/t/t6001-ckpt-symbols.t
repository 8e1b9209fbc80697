#!/bin/sh
# The checkpoint library: libc only, nothing newer than GLIBC_2.28 (RHEL 8), the public names and no others.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

command -v objdump >/dev/null || skip_all "no objdump here"
library=$BUILD/liblockstep-ckpt.so
[ -f "$library" ] || skip_all "no liblockstep-ckpt.so in $BUILD"
nm -D "$library" | grep -Eq '__(asan|tsan|ubsan|msan)' && skip_all "built with a sanitizer"

objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -u | while read -r version; do
    newest=$(printf '%s\n2.28\n' "${version#GLIBC_}" | sort -V | tail -n 1)
    [ "$newest" = 2.28 ] || objdump -T "$library" | grep -F "$version"
done >"$TAP/out"
is "needs nothing newer than GLIBC_2.28" "$(cat "$TAP/out")" ""
objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -Evx 'libc\.so\.6|ld-linux.*' >"$TAP/out"
is "needs no library but libc" "$(cat "$TAP/out")" ""
sed -n 's/^LOCKSTEP_API.*[ *]\(lockstep_[a-z0-9_]*\)(.*/\1/p' "$SOURCE/include/lockstep/ckpt.h" | sort -u >"$TAP/declared"
nm -D --defined-only "$library" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort -u >"$TAP/exported"
ok "exports every function of the public header, and no other" diff "$TAP/declared" "$TAP/exported"
nm -D --defined-only "$library" | awk '$2 !~ /^[TA]$/' >"$TAP/out"
is "and no data" "$(cat "$TAP/out")" ""
nm -D --undefined-only "$library" >"$TAP/wants"
lacks "sets no handler and runs nothing at its end" ' (sigaction|signal|atexit|__cxa_atexit)(@|$)' "$TAP/wants"
readelf -dW "$library" >"$TAP/dynamic"
has "stays when it is closed" 'FLAGS_1.*NODELETE' "$TAP/dynamic"
ok "the header compiles by itself" cc -std=c99 -Wall -Wextra -Werror -fsyntax-only -x c "$SOURCE/include/lockstep/ckpt.h"
done_testing
