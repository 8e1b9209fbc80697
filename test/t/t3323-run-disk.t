#!/bin/sh
# One run's token cannot fill the disk: frames that nobody knows go at the first compaction, a log has a bound, and beyond
# it that run alone is refused.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

LIMIT=7000000
bytes_of() { cat "$site/runs/$1"/log.lsf* 2>/dev/null | wc -c; }

site_start --run-disk $LIMIT
register junk >"$TAP/status"
next=0 worst=0
send() # COUNT BYTES KIND
{
    if [ "$3" = unknown ]; then
        "$BUILD/test/frames" unknown $next "$1" "$2" >"$TAP/body"
    else
        "$BUILD/test/frames" shapes $next "$1" >"$TAP/body"
    fi
    last=$(post junk "$TAP/body")
    [ "$last" != 200 ] || next=$((next + $1))
    now=$(bytes_of junk)
    [ "$now" -le $worst ] || worst=$now
}

# 15 MB of junk: it is taken, and dropped again.
compacted() { show metrics >"$TAP/metrics"; grep -Eq '^lockstep_log_compactions_total [1-9]' "$TAP/metrics"; }
tries=0
while [ $next -lt 300 ] && [ $tries -lt 600 ]; do
    send 10 50000 unknown
    tries=$((tries + 1))
    [ "$last" = 200 ] || sleep 0.1 # before it is sent again
done
is "frames of unknown types are taken" $next 300
ok "a log with them is compacted" compacted
ok "and does not grow beyond its limit" test $worst -le $((LIMIT + 2000000))

# What nobody may drop counts, too.
tries=0
while [ $tries -lt 80 ]; do
    send 100 0 shapes
    tries=$((tries + 1))
    [ "$last" != 507 ] || break
done
await_507() { send 100 0 shapes; [ "$last" = 507 ]; }
await await_507
is "a run that brings too much is refused" "$last" 507
has "in words" '"error": ?"cannot write the log of run junk now: its log would grow to [0-9]+ bytes; the limit for a run is 4000000' "$TAP/out"
ok "its log has not grown beyond its limit" test $worst -le $((LIMIT + 2000000))
show metrics >"$TAP/out"
has "the metrics count it" '^lockstep_ingest_over_limit_total [1-9]' "$TAP/out"
is "the controller is ready" "$(curl -s -o "$TAP/out" -w '%{http_code}' "$url/readyz")" 200
is "another run goes on" "$(site_run good 2 20 && echo well)" well
site_stop
site_start --run-disk $LIMIT
await await_507
tap_result $? "so it is after a restart"
is "the other run is there" "$(LOCKSTEP_STATE=$site "$LOCKSTEP" why --json good >"$TAP/out"; number steps)" 40
site_stop
done_testing
