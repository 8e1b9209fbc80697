#!/bin/sh
# One run's token cannot take the site's memory: what frames claim costs nothing, what they bring has a bound, and beyond
# it that run alone is refused, at the next start, too.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

site_start
is "a run is registered" "$(register greedy)" 200
"$BUILD/test/frames" comms 0 3000 >"$TAP/body"
before=$(memory_kb)
is "it tells of 3000 communicators of 262144 members" "$(post greedy "$TAP/body")" 200
is "another run's facts are taken, and judged" "$(site_run good 2 20 && echo well)" well
after=$(memory_kb)
ok "they cost less than 64 MB, not 3 GB" test $((after - before)) -lt 65536
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json good >"$TAP/out" 2>"$TAP/err"
is "every step of the other is there" "$(number steps)" 40
site_stop
site_start
is "after a restart the run goes on" "$("$BUILD/test/frames" comms 3000 1 >"$TAP/body"; post greedy "$TAP/body")" 200
ok "without the memory" test "$(memory_kb)" -lt $((before + 65536))
site_stop

# What was brought, and not only claimed, has a bound.
site_start --run-memory 8000000
for first in 0 400 800 1200 1600; do
    "$BUILD/test/frames" shapes $((4000 + first)) 400 >"$TAP/body"
    last=$(post greedy "$TAP/body")
done
is "a run that needs more is refused" "$last" 507
has "in words" '"error": ?"run greedy: run .greedy. is refused: its facts use [0-9]+ bytes of memory; the limit for a run is 8000000' "$TAP/out"
has "and there is a mark, which says how to lift it" '^To accept the run again, remove this file' "$site/runs/greedy/refused"
is "another run goes on" "$(site_run better 2 20 && echo well)" well
show api/v1/runs/greedy >"$TAP/out"
has "the API shows it" '"state": ?"refused"' "$TAP/out"
has "and why" '"refused": ?"its facts use' "$TAP/out"
show metrics >"$TAP/out"
has "so do the metrics" '^lockstep_run_refused\{run="greedy"\} 1$' "$TAP/out"
LOCKSTEP_STATE=$site "$LOCKSTEP" ps >"$TAP/out"
has "and ps" '^greedy +refused .*its facts use' "$TAP/out"
site_stop
site_start
is "it is refused after a restart" "$("$BUILD/test/frames" comms 3001 1 >"$TAP/body"; post greedy "$TAP/body")" 507
show metrics >"$TAP/out"
lacks "and not loaded" 'lockstep_run_memory_bytes\{run="greedy"' "$TAP/out"
rm "$site/runs/greedy/refused"
taken() { [ "$(post greedy "$TAP/body")" = 200 ]; }
await taken
tap_result $? "until an administrator removes the mark"
site_stop
done_testing
