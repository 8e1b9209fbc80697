#!/bin/sh
# The page of a running job in a real browser: a slow rank, a kill and a restart, answered by accessible names alone.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/page.sh"
need_browser

run=$LOCKSTEP_STATE/runs/live
"$LOCKSTEP" demo --name live --nodes 2 --layout tp=2,pp=1,dp=4 --steps 5000 -f gpu-slow:rank=2,step=30,steps=40 -f kill:rank=4,step=95 \
    >"$TAP/demo.out" 2>"$TAP/demo.err" &
demo=$!
trap 'kill $demo 2>/dev/null; wait $demo 2>/dev/null; rm -rf "$TAP"' EXIT
await test -s "$run/control.url"
page live "$run"
kill $demo
wait $demo
done_testing
