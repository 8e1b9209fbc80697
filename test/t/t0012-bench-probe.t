#!/bin/sh
# The benchmark of the probe runs, names its numbers as scripts expect, and leaves nothing behind.
# How fast it is, is not asked here: a busy machine would answer.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

rings() { ls -d /dev/shm/lockstep-bench-* /tmp/lockstep-bench-* 2>/dev/null; }

rings >"$TAP/before"
"$LOCKSTEP" bench probe --json --batches 20 --cold 2 >"$TAP/out" 2>"$TAP/err"
[ $? -le 1 ]
tap_result $? "ends with 0 or 1"
for name in event_p50_ns event_p99_ns clock_p50_ns two_threads_event_p50_ns cold_event_p50_ns \
    nccl_collective_p50_ns nccl_collective_p99_ns nccl_floor_p50_ns bar_ns; do
    has "says $name" "\"$name\": -?[0-9]+\.[0-9]" "$TAP/out"
done
rings >"$TAP/after"
comm -13 "$TAP/before" "$TAP/after" >"$TAP/out" # others may end theirs meanwhile
[ ! -s "$TAP/out" ]
tap_result $? "leaves no ring behind"
exits 2 "refuses to measure nothing" "$LOCKSTEP" bench probe --batches 0
has "and says why" 'batches must be' "$TAP/err"
done_testing
