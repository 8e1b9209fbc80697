#!/bin/sh
# A long log of one run is read a little at a time: meanwhile the controller answers, and other runs go on.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

site_start --run-memory 0
register long >"$TAP/status"
first=0
while [ $first -lt 16000 ]; do # so many that a fast machine reads for a while, too
    "$BUILD/test/frames" shapes $first 400 >"$TAP/body"
    is "it brings many facts" "$(post long "$TAP/body")" 200
    first=$((first + 400))
done
site_stop
"$BUILD/test/frames" make 16000 1 >"$TAP/one"

# Both questions come as soon as it answers: reading has not come far.  On a machine with other work the log may have been
# read before the second one; then the controller starts again.
for _ in 1 2 3 4 5; do
    site_start --run-memory 0
    loading=$(show metrics | sed -n 's/^lockstep_runs_loading \([0-9]*\)$/\1/p')
    last=$(post long "$TAP/one")
    [ "$loading $last" != "1 503" ] || break
    site_stop
done
is "it answers while a log is being read" "$loading" 1
is "facts of that run have to wait" "$last" 503
has "and it is said why" 'its log is being read, [0-9]+ of [0-9]+ bytes so far' "$TAP/out"
is "another run begins" "$(register other)" 200
is "and brings facts" "$(post other "$TAP/one")" 200
taken() { [ "$(post long "$TAP/one")" = 200 ]; }
await taken
tap_result $? "when it is read they are taken"
is "all of it was kept" "$(show api/v1/runs/long/shapes?limit=1 | grep -c '"shapes"')" 1
site_stop
done_testing
