#!/bin/sh
# The matrix bench in small: it measures what it says, and leaves nothing behind.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

mkdir "$TAP/place"
"$LOCKSTEP" bench matrix --json --ranks 300 --steps 1000 --tiles 50 --dir "$TAP/place" >"$TAP/out" 2>"$TAP/err"
status=$?
[ $status = 0 ] || [ $status = 1 ] # how fast it is here is not this test's business
tap_result $? "a small matrix is measured"
for name in tile_p50_ms tile_p99_ms tile_cold_p99_ms read_p99_ms append_us file_bytes; do
    has "it says $name" "\"$name\": *[0-9]" "$TAP/out"
done
[ -z "$(ls -A "$TAP/place")" ]
tap_result $? "the file is removed"
exits 3 "a place that is not there" "$LOCKSTEP" bench matrix --steps 10 --ranks 8 --dir "$TAP/none"
has "is named" "$TAP/none: No such file" "$TAP/err"
exits 2 "no ranks at all" "$LOCKSTEP" bench matrix --ranks 0
done_testing
