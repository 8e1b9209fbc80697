#!/bin/sh
# The controller of a run that has no site serves the API on loopback: its address and a token are in the run's directory.
# Facts come from the spools and over HTTP; each is logged once.  Neither the API nor the index is needed to judge the run.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=1000000
dir=$LOCKSTEP_STATE/runs/one stop=$TAP/stop run=''
trap '[ -z "$run" ] || kill $run 2>/dev/null; wait; rm -rf "$TAP"' EXIT

controller()
{
    pgrep -f "control --run-dir $dir\$" | head -n 1
}

address() # sets $url and makes $TAP/reader for curl
{
    await test -s "$dir/control.url"
    url=$(sed -n 1p "$dir/control.url")
    sed -n 2p "$dir/control.url" >"$TAP/reader.token"
    reader=$(bearer "$TAP/reader.token")
}

status() # CURL-ARGUMENT...: the status, and the body in $TAP/out
{
    curl -s -m 60 -o "$TAP/out" -w '%{http_code}' "$@"
}

"$LOCKSTEP" run --name one -n 4 --nodes 2 -- "$LOCKSTEP" trainer --steps $STEPS --step-ms 20 --host-work-ms 0 \
    --stop-file "$stop" >"$TAP/run.out" 2>"$TAP/run.err" </dev/null &
run=$!
address
is "only its user may read the address" "$(stat -c %a "$dir/control.url")" 600
is "it has two lines" "$(wc -l <"$dir/control.url")" 2
has "the first is the address" '^http://127\.0\.0\.1:[0-9]+$' "$dir/control.url"
has "the second is a token" '^lst_[0-9a-f]{64}$' "$dir/control.url"
is "nothing can be read without a token" "$(status "$url/api/v1/runs")" 401
is "nor the metrics" "$(status "$url/metrics")" 401
is "with it the run can be read" "$(status -K "$reader" "$url/api/v1/runs/one")" 200
has "by its name" '"run": *"one"' "$TAP/out"
is "and the metrics" "$(status -K "$reader" "$url/metrics")" 200
judged() { curl -s -K "$reader" "$url/api/v1/runs/one/steps?limit=5" | grep -q '"step":'; }
await judged
tap_result $? "its steps are there while it runs"
await test -s "$dir/matrix.lsm"
tap_result $? "and its matrix"
is "the token cannot write" "$(status -K "$reader" -d '{"run":"one"}' "$url/api/v1/runs")" 403
launch=$(bearer "$dir/tokens/launch.token")
is "another run is not served" "$(status -K "$launch" -d '{"run":"two"}' "$url/api/v1/runs")" 404
ok "and leaves nothing" test ! -e "$dir/runs"
"$LOCKSTEP" ps --json >"$TAP/out"
has "ps shows the address" "\"control\": *\"$url\"" "$TAP/out"
lacks "but not the token" 'lst_' "$TAP/out"

# The same frames over HTTP: what the spools brought is not logged again.
is "the run's own token may send" "$(status -K "$(bearer "$dir/tokens/agent.token")" \
    --data-binary @"$dir/spool/launcher.lsf" "$url/api/v1/frames?run=one")" 200
has "frames of a spool were known already" '"doubled": *[1-9]' "$TAP/out"

# Killed: the next one has another port and another token.
before=$(controller) old=$TAP/reader.token.old old_url=$url
cp "$TAP/reader.token" "$old"
kill -9 "$before"
back() { now=$(controller) && [ -n "$now" ] && [ "$now" != "$before" ] && ! grep -qx "$old_url" "$dir/control.url"; }
await back
address
is "the next controller takes its own token" "$(status -K "$reader" "$url/api/v1/runs/one")" 200
is "the token of the killed one is not valid" "$(status -K "$(bearer "$old")" "$url/api/v1/runs/one")" 401

# A ruined index: rows come back, the log is as it was.
dd if=/dev/urandom of="$dir/index.sqlite" bs=4096 count=8 conv=notrunc 2>/dev/null
served() { [ "$(status -K "$reader" "$url/api/v1/runs/one/steps")" = 200 ] && grep -q '"step":' "$TAP/out"; }
await served
tap_result $? "a damaged index is made again"
touch "$stop"
wait $run
is "the run ends well" $? 0
run=''
ok "the address is gone with the controller" test ! -e "$dir/control.url"
steps=$(sed -n 's/.*done after \([0-9]*\) steps.*/\1/p' "$dir/out/rank-0.log" | tail -n 1)
ok "every step is in the log once" "$BUILD/test/log-check" "$dir" "$steps"
ok "and is judged the same again" "$LOCKSTEP" why --replay one
has "byte for byte" 'byte-equal$' "$TAP/out"

# A site's controller on the same state directory leaves the runs of others alone.
size=$(stat -c %s "$dir/log.lsf")
"$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/site.err" &
site=$!
await test -s "$LOCKSTEP_STATE/control.url"
is "a site's controller does not take it up" "$(status -K "$(bearer "$LOCKSTEP_STATE/tokens/reader.token")" \
    "$(cat "$LOCKSTEP_STATE/control.url")/api/v1/runs/one")" 404
kill $site
wait $site
is "its log stays as it was" "$(stat -c %s "$dir/log.lsf")" "$size"

# No API: a file is where its tokens belong.
dir=$LOCKSTEP_STATE/runs/mute
mkdir -p "$dir"
touch "$dir/tokens"
ok "a run whose controller cannot listen" "$LOCKSTEP" run -q --dir "$dir" -n 2 -- "$LOCKSTEP" trainer --steps 100 --step-ms 5
has "says so" 'the API is not available, the run is judged anyway: .*tokens' "$dir/control.log"
ok "is logged as any other" "$BUILD/test/log-check" "$dir" 100
ok "and judged" "$LOCKSTEP" why --replay "$dir"
done_testing
