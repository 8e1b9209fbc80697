#!/bin/sh
# probe-inline.h: a program that links to nothing of lockstep's is recorded where the library is, and runs unchanged
# where it is not.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

library=$BUILD/liblockstep.so.0
[ -f "$library" ] || skip_all "no liblockstep.so.0 in $BUILD"
command -v cc >/dev/null || skip_all "no C compiler here"
nm -D "$library" | grep -Eq '__(asan|tsan|ubsan|msan)' && skip_all "built with a sanitizer"
unset LOCKSTEP_LIB LOCKSTEP_LAUNCHER_LIB LD_LIBRARY_PATH

warnings='-Wall -Wextra -Wpedantic -Wshadow -Werror'

# In both cases every call is made.
runs() # PROGRAM WHAT
{
    mkdir -m 700 "$TAP/rings"
    LOCKSTEP_DIR=$TAP/rings
    export LOCKSTEP_DIR
    ok "$2 runs without the library" "$1"
    has "it finds none" '^version none$' "$TAP/out"
    has "open says so" '^open -2 liblockstep.so.0: cannot open shared object file' "$TAP/out"
    has "no communicator" '^comm -19$' "$TAP/out"
    has "no request" '^request 0$' "$TAP/out"
    is "no ring" "$(ls "$TAP/rings")" ""
    ok "$2 runs with the library" env LOCKSTEP_LIB="$library" "$1"
    has "it has a version" '^version [0-9]+\.[0-9]+\.[0-9]+$' "$TAP/out"
    has "open succeeds" '^open 0 $' "$TAP/out"
    has "a layout" '^layout 0$' "$TAP/out"
    has "a communicator" '^comm 0$' "$TAP/out"
    has "a clock" '^clock 1$' "$TAP/out"
    is "a ring" "$(ls "$TAP/rings")" rank-0.0.ring
    # The head of the first lane.
    is "with every event" "$(od -An -t u8 -j 12288 -N 8 "$TAP/rings/rank-0.0.ring" | tr -d ' ')" 15
    rm -r "$TAP/rings"
    ok "$2 finds the library by its name" env LOCKSTEP_DIR="$TAP" LD_LIBRARY_PATH="$BUILD" "$1"
    has "and opens it" '^open 0 $' "$TAP/out"
    ok "$2 runs with a library that is none" env LOCKSTEP_LIB=/dev/null "$1"
    has "and does without" '^open -2 ' "$TAP/out"
    # A library that lacks the functions.
    ok "$2 runs with another library" env LOCKSTEP_LIB="$TAP/other.so" "$1"
    has "and does without that" '^open -2 ' "$TAP/out"
}

echo 'int other; int other;' >"$TAP/other.c"
cc -shared -fPIC -o "$TAP/other.so" "$TAP/other.c"
ok "it compiles as C" cc -std=c99 $warnings -I"$SOURCE/include" -o "$TAP/inline-c" "$SOURCE/test/t/inline.c" -ldl
nm "$TAP/inline-c" | grep ' U lockstep' >"$TAP/wants"
is "and needs no name of the library" "$(cat "$TAP/wants")" ""
runs "$TAP/inline-c" "C"

if command -v c++ >/dev/null; then
    cp "$SOURCE/test/t/inline.c" "$TAP/inline.cc"
    ok "it compiles as C++" c++ -std=c++17 -Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers \
        -I"$SOURCE/include" -o "$TAP/inline-cc" "$TAP/inline.cc" -ldl
    runs "$TAP/inline-cc" "C++"
else
    skip "it compiles as C++" "no C++ compiler here"
fi

# The header has every function of probe.h.
sed -n 's/^LOCKSTEP_API.*[ *]lockstep_\([a-z0-9_]*\)(.*/\1/p' "$SOURCE/include/lockstep/probe.h" | sort >"$TAP/all"
sed -n 's/^LOCKSTEP_INLINE.*[ *]lockstep_inline_\([a-z0-9_]*\)(.*/\1/p' "$SOURCE/include/lockstep/probe-inline.h" |
    grep -vxE 'here|find|library_open|load|get' | sort >"$TAP/inline"
ok "it has every function of probe.h" diff "$TAP/all" "$TAP/inline"
done_testing
