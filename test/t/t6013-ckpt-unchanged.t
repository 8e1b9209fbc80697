#!/bin/sh
# A program that saves the same bytes again and again is told so, although every checksum is right.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train

json() # EXPRESSION: of the answer on $TAP/out
{
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
ok "a program whose tensors change" "$train" "$TAP/good" steps=3 mb=1
has "has changed all of them" '^unchanged 0 of 5$' "$TAP/out"
is "and no warning" "$(cat "$TAP/err")" ''

"$train" "$TAP/same" steps=6 mb=1 stale=1 >"$TAP/out" 2>"$TAP/err"
has "has changed none" '^unchanged 5 of 5$' "$TAP/out"
has "and is told" 'rank 0: step 2: all 5 tensors are identical to those of step 1; check that' "$TAP/err"
is "three times at most" "$(grep -c identical "$TAP/err")" 3
ok "verify reads points that are all right" "$LOCKSTEP" ckpt verify "$TAP/same" --json
is "and names the older point with the same tensors" "$(json '[p.get("same_as") for p in a["points"]]')" "[5, 4, 3, 2, 1, None]"
has "in words, too" 'step 6: all tensors are identical to those of step 5' "$TAP/err"
ok "verify of different points" "$LOCKSTEP" ckpt verify "$TAP/good" --json
is "names none" "$(json '[p.get("same_as") for p in a["points"]]')" "[None, None, None]"

# Ranks that share a directory begin one after the other, and commit all the same.
pids=
for rank in 0 1 2 3; do
    "$train" "$TAP/many" rank=$rank world=4 job=9 steps=4 mb=8 shards=1 wait=verified >"$TAP/rank-$rank" 2>&1 &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || echo "rank failed" >>"$TAP/failed"
done
exits 1 "four ranks save four times" test -e "$TAP/failed"
ok "and all points are right" "$LOCKSTEP" ckpt verify "$TAP/many"
is "each of them" "$(grep -c verified "$TAP/out")" 4
done_testing
