#!/bin/sh
# `lockstep request cancel`: an open request is given up, with what the ranks may still do, and makes room for the next one.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
launcher=''
trap 'kill -9 $launcher 2>/dev/null; rm -rf "$TAP"' EXIT

exits 2 "without a run it is refused" "$LOCKSTEP" request cancel
exits 2 "what is no id is refused" "$LOCKSTEP" request cancel r1 nonsense
has "with an example" "'nonsense' is not the id of a request, such as q-" "$TAP/err"

timeout -k 5 120 "$LOCKSTEP" run -q --name r1 -n 2 --grace 1s -- "$LOCKSTEP" trainer --steps 100000 --step-ms 20 \
    --checkpoint-dir "$TAP/saved" --checkpoint-every 1000000 >"$TAP/run.out" 2>"$TAP/run.err" &
launcher=$!
await test -s "$LOCKSTEP_STATE/runs/r1/control.url"
ok "a checkpoint on request" "$LOCKSTEP" request checkpoint r1
exits 3 "nothing is open" "$LOCKSTEP" request cancel r1
has "which is said" "no request of run 'r1' is open" "$TAP/err"

# A rank that is stopped answers nothing.
rings=$(sed -n 's/.*"rings": *"\([^"]*\)".*/\1/p' "$LOCKSTEP_STATE/runs/r1/run.json")
rank=$(od -An -t d4 -j 44 -N 4 "$(ls "$rings"/rank-1.*.ring)" | tr -d ' ')
kill -STOP "$rank"
ok "a request that waits" "$LOCKSTEP" request checkpoint --wait 0s r1
id=$(cat "$TAP/out")
exits 3 "keeps the next one out" "$LOCKSTEP" request checkpoint --wait 0s r1
has "which is said" "request $id of the same kind is open; cancel it first" "$TAP/err"
exits 3 "another id is not open" "$LOCKSTEP" request cancel r1 q-0123456789abcdef
ok "it is cancelled" "$LOCKSTEP" request cancel r1 "$id"
has "by whom, and what may still happen" "^request $id: cancelled by .*" "$TAP/out"
exits 3 "it is not cancelled twice" "$LOCKSTEP" request cancel r1 "$id"
kill -CONT "$rank"
ok "the next one is carried out" "$LOCKSTEP" request checkpoint r1
is "by both at one step" "$(sed -n 's/^rank [01]: saved at step //p' "$TAP/out" | uniq -c | tr -s ' ' | cut -d ' ' -f 2)" 2
kill -TERM $launcher
wait $launcher
launcher=''
ok "the log replays" "$LOCKSTEP" why --replay r1
has "byte for byte" 'byte-equal' "$TAP/out"
done_testing
