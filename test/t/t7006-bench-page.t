#!/bin/sh
# The page bench in small: it measures what it says in a real browser, and leaves nothing behind.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/page.sh"
need_browser

mkdir "$TAP/place"
TMPDIR=$TAP/place "$LOCKSTEP" bench page --json --ranks 16 --steps 10 --keys 10 --browser "$CHROMIUM" >"$TAP/out" 2>"$TAP/err"
status=$?
[ $status = 0 ] || [ $status = 1 ] # how fast it is here is not this test's business
tap_result $? "a small job is measured"
for name in first_paint_ms input_p95_ms empty_p95_ms bytes_gzip; do
    has "it says $name" "\"$name\": *[1-9]" "$TAP/out"
done
is "nothing is left behind" "$(ls -A "$TAP/place")" ''
exits 3 "a browser that is not there" "$LOCKSTEP" bench page --ranks 16 --steps 10 --browser "$TAP/none"
has "is named" "$TAP/none: No such file" "$TAP/err"
exits 2 "no ranks at all" "$LOCKSTEP" bench page --ranks 0
done_testing
