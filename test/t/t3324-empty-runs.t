#!/bin/sh
# Runs that were registered and never reported anything are removed after a while, those that did are not.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

site_start --forget-after 1s
"$BUILD/test/frames" make 0 3 >"$TAP/body"
: >"$TAP/nothing"
for run in silent asked spoke; do register $run >"$TAP/status"; done
is "one of three runs brings facts" "$(post spoke "$TAP/body")" 200
is "another asks what the controller has" "$(post asked "$TAP/nothing")" 200
gone() { for run in "$@"; do [ ! -e "$site/runs/$run" ] || return 1; done; }
await gone silent asked
tap_result $? "those that never brought any are removed"
[ -s "$site/runs/spoke/log.lsf" ]
tap_result $? "the one that did is not"
show "api/v1/runs?limit=100" >"$TAP/out"
has "it is listed" '"run": ?"spoke"' "$TAP/out"
lacks "the others are not" '"run": ?"(silent|asked)"' "$TAP/out"
is "their token is worth nothing" "$(curl -s -o "$TAP/out" -w '%{http_code}' -H 'Authorization: Bearer lst_x' --data-binary @"$TAP/body" "$url/api/v1/frames?run=silent")" 401
is "one of them is registered again" "$(register silent)" 200
is "and brings facts now" "$(post silent "$TAP/body")" 200
site_stop
site_start --forget-after 1s
"$BUILD/test/frames" make 3 1 >"$TAP/body"
is "after a restart it is still there" "$(post silent "$TAP/body")" 200
site_stop
register_only() { mkdir -p "$site/runs/old" && cp -p "$site/runs/spoke/agent.token" "$site/runs/old/"; }
register_only
site_start --forget-after 1s
await gone old
tap_result $? "one of a former life is removed as well"
[ -s "$site/runs/spoke/log.lsf" ] && [ -s "$site/runs/silent/log.lsf" ]
tap_result $? "the others stay"
site_stop
done_testing
