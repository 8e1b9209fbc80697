#!/bin/sh
# Numbers and times of a query are what they say, or refused; none of them overflows.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

site_start
site_run r1 2 20
rc=$(reader)
ask() { status -K "$rc" "$api/$1"; }
for rank in 4294967296 9223372036854775806 9223372036854775807 9223372036854775808 18446744073709551614 18446744073709551615 \
    99999999999999999999 -1 +1 0x1 ' 1' ''; do
    encoded=$(printf %s "$rank" | sed 's/+/%2b/; s/ /%20/')
    is "rank '$rank' is refused" "$(ask "runs/r1/ranks?rank=$encoded")" 400
    is "also in verdicts" "$(ask "verdicts?rank=$encoded")" 400
done
is "the largest rank is one" "$(ask "runs/r1/ranks?rank=4294967295")" 200
for name in after step_from step_to; do
    is "$name may be as large as the index can hold" "$(ask "runs/r1/steps?$name=9223372036854775807")" 200
    is "and no larger" "$(ask "runs/r1/steps?$name=9223372036854775808")" 400
done
is "after the last cursor there is nothing" "$(ask 'runs/r1/steps?after=9223372036854775807' >/dev/null; grep -c '"steps":\[\]' "$TAP/out")" 1
is "before it, from the newest down, there is everything" \
    "$(ask 'runs/r1/steps?after=9223372036854775807&newest_first=true' >/dev/null; grep -o '"step":' "$TAP/out" | wc -l)" 20
for time in 9999-12-31T23:59:59Z 2300-01-01T00:00:00Z 2026-01-01T00:00:00.1e300Z 2026-01-01T00:00:00.0x1p99Z 1e300 9e18 nan inf 0x10 \
    99999999999 9000000001 1.1234567891 -1 1. .5 1,5 0; do
    is "time '$time' is refused" "$(ask "runs?time_from=$time")" 400
done
for time in 2026-01-01T00:00:00Z 2026-01-01T00:00:00.123456789Z 1000000000 1000000000.5 9000000000; do
    is "time '$time' is taken" "$(ask "runs?time_from=$time")" 200
done
is "a Last-Event-ID beyond all numbers is told to begin anew" "$(curl -sN --max-time 1 -K "$rc" \
    -H 'Last-Event-ID: ffffffffffffffff-18446744073709551615' "$api/events" | grep -c '^event: reset')" 1
site_stop
done_testing
