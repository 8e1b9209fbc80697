#!/bin/sh
# Decisions and compaction: the log of a run is merged while requests come, before and after a kill of the controller.  Nothing
# is decided twice or forgotten, and the log gives the same decisions again.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

site=$TAP/site user=$TAP/user
control='' launcher=''
trap 'kill -9 $control $launcher 2>/dev/null; rm -rf "$TAP"' EXIT
command -v python3 >/dev/null || skip_all "no python3 here"

begin()
{
    LOCKSTEP_STATE=$site LOCKSTEP_LOG_MAX=60000 "$LOCKSTEP" control --listen "${listen:-127.0.0.1:0}" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url") listen=${url#http://}
    await curl -sf "$url/healthz"
}
compacted() { [ "$(grep -c 'compacted its log' "$TAP/control.err")" -ge "$1" ]; }
request() { LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url "$LOCKSTEP" request checkpoint r1 >"$TAP/out" 2>"$TAP/err"; }
saved() # NAME: all ranks have, at one step
{
    request
    is "$1" "$? $(sed -n 's/^rank [01]: saved at step //p' "$TAP/out" | uniq -c | tr -s ' ' | cut -d ' ' -f 2)" "0 2"
}

begin
LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
    "$LOCKSTEP" run -q --name r1 -n 2 --grace 1s -- "$LOCKSTEP" trainer --steps 1000000 --step-ms 5 --host-work-ms 0 \
    --checkpoint-dir "$TAP/saved" --checkpoint-every 10000000 >"$TAP/run.out" 2>"$TAP/run.err" &
launcher=$!
await test -s "$user/runs/r1/agent.token"
await test -s "$site/runs/r1/log.lsf"
saved "a request is served"
await compacted 1
saved "another one after its log was compacted"
count=$(grep -c 'compacted its log' "$TAP/control.err")
await compacted $((count + 1))
kill -9 $control
wait $control 2>/dev/null
rm "$site/control.url"
begin
# shellcheck disable=SC2329 # called by await
again() { request; }
await again
is "another one by a controller that read the compacted log" "$(grep -c '^rank [01]: saved at step' "$TAP/out")" 2
kill -TERM $launcher
wait $launcher
launcher=
python3 "$SOURCE/test/t/outcomes.py" "$site/runs/r1/log.lsf" "$user/runs/r1/spool/launcher.lsf" >"$TAP/out" 2>"$TAP/err"
is "no decision was lost or repeated" $? 0
has "all of them are in the log" '^([3-9]|[1-9][0-9]) ordered, ([3-9]|[1-9][0-9]) begun, 0 faults$' "$TAP/out"
LOCKSTEP_STATE=$site "$LOCKSTEP" why --replay r1 >"$TAP/out" 2>&1
has "the log gives the same decisions again" 'byte-equal$' "$TAP/out"
done_testing
