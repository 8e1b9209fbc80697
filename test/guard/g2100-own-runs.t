#!/bin/sh
# Two users train on one machine.  Each run's controller listens on loopback, where every user can connect: neither user
# can read the other's address file, tokens, log or API.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/guard.sh"

pids=''
leave()
{
    touch "$TAP/stop"
    for pid in $pids; do wait "$pid"; done
    rm -rf "$TAP"
}
trap leave EXIT

begin() # UID
{
    mkdir -m 755 "$TAP/$1"
    chown "$1" "$TAP/$1"
    as "$1" LOCKSTEP_STATE="$TAP/$1/state" timeout -k 5 120 "$LOCKSTEP" run -q -n 2 --name r -- "$LOCKSTEP" trainer \
        --steps 1000000 --step-ms 20 --stop-file "$TAP/stop" >"$TAP/run-$1.out" 2>"$TAP/run-$1.err" </dev/null &
    pids="$pids $!"
}

status() # UID CURL-ARGUMENT...
{
    status_user=$1
    shift
    as "$status_user" curl -s -m 20 -o /dev/null -w '%{http_code}' "$@"
}

begin $ada
begin $bob
for user in $ada $bob; do
    await test -s "$TAP/$user/state/runs/r/control.url"
    tap_result $? "the run of user $user has an address"
done
dir=$TAP/$ada/state/runs/r
is "which that user alone may read" "$(stat -c '%u %a' "$dir/control.url")" "$ada 600"
for file in control.url tokens/reader.token tokens/agent.token log.lsf index.sqlite; do
    exits 1 "another user cannot read $file" as $bob head -c 1 "$dir/$file"
done
url=$(sed -n 1p "$dir/control.url")
header() { printf 'Authorization: Bearer %s' "$(sed -n 2p "$TAP/$1/state/runs/r/control.url")"; }
is "the other user can connect" "$(status $bob "$url/healthz")" 200
for path in metrics api/v1/runs api/v1/runs/r api/v1/runs/r/verdicts api/v1/events api/v1/config; do
    is "but cannot read /$path without a token" "$(status $bob "$url/$path")" 401
done
is "nor with the token of a run of its own" "$(status $bob -H "$(header $bob)" "$url/api/v1/runs")" 401
is "nor write" "$(status $bob -d '{"run":"r"}' "$url/api/v1/runs")" 401
is "the run's own user can read" "$(status $ada -H "$(header $ada)" "$url/api/v1/runs/r")" 200
exits 3 "ps of another state directory shows nothing" as $bob LOCKSTEP_STATE="$TAP/$ada/state" "$LOCKSTEP" ps
done_testing
