#!/bin/sh
# The benchmark of the controller runs, names its numbers as scripts expect, and leaves nothing behind.
# How fast it is, is not asked here: a busy machine would answer.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

"$LOCKSTEP" bench control --json --ranks 32 --seconds 3 --readers 3 --ops 20 --dir "$TAP" >"$TAP/out" 2>"$TAP/err"
[ $? -le 1 ]
tap_result $? "ends with 0 or 1"
for name in cpu_core_share load_core_share rss_bytes ingest_p99_ms sse_p99_ms verdict_delay_p99_s log_bytes_per_s; do
    has "says $name" "\"$name\": [0-9]+\.[0-9]" "$TAP/out"
done
has "every step was judged" '"judged_steps": 3.0' "$TAP/out"
has "nothing failed" '"failed": 0.0' "$TAP/out"
ls -d "$TAP"/lockstep-bench-* >"$TAP/out" 2>/dev/null
[ ! -s "$TAP/out" ]
tap_result $? "leaves nothing behind"
"$LOCKSTEP" bench control --json --ranks 16 --seconds 5 --step-ms 2500 --readers 1 --ops 20 --dir "$TAP" >"$TAP/out" 2>"$TAP/err"
has "steps may take longer" '"judged_steps": 2.0' "$TAP/out"
exits 2 "refuses ranks that are not in eights" "$LOCKSTEP" bench control --ranks 17
done_testing
