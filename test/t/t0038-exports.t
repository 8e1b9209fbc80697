#!/bin/sh
# Every function that a file exports is used by a program; what only tests call belongs to the tests.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
command -v nm >/dev/null || skip_all "no nm here"

"$SOURCE/tools/exports" "$BUILD" >"$TAP/out" 2>&1
is "no function is there for tests alone" "$(cat "$TAP/out")" ""

mkdir -p "$TAP/src/room" "$TAP/build"
cat >"$TAP/src/room/thing.c" <<'END'
int thing_own(void) { return 1; }
int thing_used(void) { return thing_own(); }
int thing_tested(void) { return 2; } /* thing_tested() is called by a test */
END
echo 'int thing_used(void); int main(void) { return thing_used(); }' >"$TAP/src/room/other.c"
echo 'int thing_tested(void); int main(void) { return thing_tested(); }' >"$TAP/test-thing.c"
for file in src/room/thing src/room/other test-thing; do
    "${CC:-cc}" -c -o "$TAP/build/$(basename $file).c.o" "$TAP/$file.c" || skip_all "no compiler here"
done
exits 1 "one is found" "$SOURCE/tools/exports" "$TAP/build" "$TAP"
is "and named with its file" "$(cat "$TAP/out")" "src/room/thing.c: no program uses thing_tested()"
exits 1 "a directory without objects proves nothing" "$SOURCE/tools/exports" "$TAP/src"
done_testing
