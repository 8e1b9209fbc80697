#!/bin/sh
# A program finds the header and the library by pkg-config, as installed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

command -v pkg-config >/dev/null || skip_all "no pkg-config here"
command -v cc >/dev/null || skip_all "no C compiler here"
nm -D "$BUILD/liblockstep.so" | grep -Eq '__(asan|tsan|ubsan|msan)' && skip_all "built with a sanitizer"
file=$BUILD/meson-private/lockstep.pc
ok "there is a file for pkg-config" test -f "$file"
version=$("$LOCKSTEP" version | sed -n 's/^lockstep //p')

# As a packager installs it, but only what a program compiles against.
prefix=$(sed -n 's/^prefix=//p' "$file")
libdir=$(sed -n 's/^libdir=//p' "$file" | sed "s,\${prefix},$prefix,")
includedir=$(sed -n 's/^includedir=//p' "$file" | sed "s,\${prefix},$prefix,")
root=$TAP/root
mkdir -p "$root$libdir/pkgconfig" "$root$includedir"
cp "$file" "$root$libdir/pkgconfig/"
cp -r "$SOURCE/include/lockstep" "$root$includedir/"
cp "$BUILD/liblockstep.so" "$root$libdir/"
cp "$BUILD/liblockstep.so.0" "$root$libdir/"
PKG_CONFIG_LIBDIR=$root$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
is "it has the version of the program" "$(pkg-config --modversion lockstep)" "$version"

cat >"$TAP/program.c" <<'END'
#include <lockstep/probe.h>
#include <stdio.h>

int main(void)
{
    struct lockstep_probe *probe = NULL;
    char why[256] = "";

    puts(lockstep_version());
    if (lockstep_probe_open(0, 1, &probe, why, sizeof(why)) < 0)
        puts(why);
    lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = -1, .op = LOCKSTEP_OP_BARRIER));
    lockstep_probe_close(probe);
    return 0;
}
END
# shellcheck disable=SC2046 # a list of options
ok "a program compiles with what it says" cc -std=c99 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags lockstep) \
    -o "$TAP/program" "$TAP/program.c" $(pkg-config --libs lockstep)
mkdir -m 700 "$TAP/rings"
ok "and runs" env LD_LIBRARY_PATH="$root$libdir" LOCKSTEP_DIR="$TAP/rings" "$TAP/program"
is "with the library of that version" "$(cat "$TAP/out")" "$version"
is "which made a ring" "$(ls "$TAP/rings")" rank-0.0.ring
ok "without a place for a ring it runs, too" env LD_LIBRARY_PATH="$root$libdir" LOCKSTEP_DIR="$TAP/none/none" "$TAP/program"
has "and has the reason" '^.*/none/none: No such file or directory$' "$TAP/out"
is "which the library does not print itself" "$(cat "$TAP/err")" ""
done_testing
