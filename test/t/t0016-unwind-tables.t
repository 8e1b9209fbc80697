#!/bin/sh
# What torch throws passes through functions of ours (src/probe/gloo_group.c): the library must have the tables by which
# C++ unwinds them, as it is built, whatever flags it is built with.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

functions='group_allreduce group_delete work_delete'

# Of each of these functions: is its first byte, and its last one, in a range of .eh_frame?
covered() # LIBRARY
{
    # Not .debug_frame, which is for debuggers and never loaded.
    readelf --debug-dump=frames "$1" 2>/dev/null | awk '/^Contents of the/ { loaded = /\.eh_frame/ } loaded' |
        sed -n 's/.* FDE .*pc=\([0-9a-f]*\)\.\.\([0-9a-f]*\)$/\1 \2/p' >"$TAP/ranges"
    nm -S "$1" >"$TAP/symbols"
    for name in $functions; do
        awk -v name="$name" '$4 == name { print $1, $2 }' "$TAP/symbols" >"$TAP/where"
        [ -s "$TAP/where" ] || { echo "$name: no such function" && return 1; }
        python3 - "$TAP/where" "$TAP/ranges" "$name" <<'END' || return 1
import sys
numbers = [[tuple(int(word, 16) for word in line.split()) for line in open(path)] for path in sys.argv[1:3]]
for begin, size in numbers[0]:
    if not any(first <= begin and begin + size <= end for first, end in numbers[1]):
        sys.exit("%s: no unwind table" % sys.argv[3])
END
    done
}

for tool in readelf nm python3; do
    command -v $tool >/dev/null || skip_all "no $tool here"
done
library=$BUILD/liblockstep.so.0
[ -f "$library" ] || skip_all "no liblockstep.so.0 in $BUILD"
[ "$(uname -m)" = x86_64 ] || skip_all "not on this processor"

ok "the library has unwind tables for its functions in torch's tables" covered "$library"

# The same of the one file that needs them, by the flags of a wheel after those of a packager who wants none.
flags=$(python3 - "$SOURCE/setup.py" <<'END'
import re, sys
text = re.search(r"FLAGS = \((.*?)\)\.split", open(sys.argv[1]).read(), re.S).group(1)
print(eval("(%s)" % text).replace("-Wl,-z,defs", "").replace("-Wl,--gc-sections", ""))  # nobody calls it here
END
)
build() # OUT FLAG...
{
    out=$1
    shift
    # shellcheck disable=SC2086 # words
    cc "$@" $flags -I"$SOURCE/src" -I"$SOURCE/include" -o "$out" "$SOURCE/src/probe/gloo_group.c"
}
if command -v cc >/dev/null; then
    ok "a wheel's library is compiled" build "$TAP/wheel.so" -fno-asynchronous-unwind-tables
    ok "and has them, whatever comes before its own flags" covered "$TAP/wheel.so"
    # And the test can fail.
    flags="$flags -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions"
    ok "a library without tables is compiled" build "$TAP/bare.so"
    exits 1 "and is found out" covered "$TAP/bare.so"
else
    skip "a wheel's library has them" "no cc here"
fi
done_testing
