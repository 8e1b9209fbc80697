#!/bin/sh
# Labelled sets of flight-recorder dumps: the culprit is named and nobody else, and nobody where the dumps cannot tell.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

for seed in 1 2; do
    python3 "$SOURCE/test/t/flight-sets.py" "$TAP/sets$seed" "$seed"
    "$LOCKSTEP" bench autopsy --size 0 --show --json "$TAP/sets$seed" >"$TAP/score" 2>"$TAP/err"
    ok "seed $seed: of the ranks that can be known at least 0.95 are named, and no other rank" python3 -c '
import json, sys
score = json.load(open(sys.argv[1]))
sys.exit(score["ranks"]["precision"] < 1 or score["ranks"]["recall"] < 0.95 or score["answerable"]["wrong"] > 0)' "$TAP/score"
done
ok "several kinds of faults are in them" grep -q dumps-device "$TAP/sets1/cases.tsv"
done_testing
