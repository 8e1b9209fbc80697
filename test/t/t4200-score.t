#!/bin/sh
# The benchmark of the verdicts, on a small part of it: cases that do not mind a busy machine.  A crash, a desync, a hang
# and corruption are found, the page is written, and a score that was interrupted goes on.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

exits 2 "refuses a family that it does not know" "$LOCKSTEP" bench verdicts --only crash,nosuch
has "and names those that there are" "expected .*gpu.*, torch" "$TAP/err"

score() # COMMAND...: what follows is all about these cases
{
    "$@" "$LOCKSTEP" bench verdicts --all --only crash,hang,desync,corruption --cases 1 --healthy 0 --jobs 4 \
        --results "$TAP/results" --write "$TAP/page.md" --json
}

score exec >"$TAP/out" 2>"$TAP/err" &
first=$!
await grep -q "^1/4 " "$TAP/err"
score env >"$TAP/again" 2>&1
has "nobody else may write there meanwhile" "results.jsonl: another .bench verdicts. uses it" "$TAP/again"
kill "$first"
wait "$first"
tap_result $(($? == 0)) "is interrupted after a case"
[ ! -e "$TAP/page.md" ]
tap_result $? "and writes no page of half a score"

score env >"$TAP/out" 2>"$TAP/err"
status=$?
# A machine that is busy with other things is rightly called so, and that is counted as wrong.
[ $status = 0 ] || [ $status = 1 ]
tap_result $? "goes on"
has "from what was there" "results.jsonl: [1-3] of 4 cases have results" "$TAP/err"
cp "$TAP/out" "$TAP/answer"
python3 - "$TAP/answer" "$TAP/results/results.jsonl" <<'END' >"$TAP/out" 2>&1
import json, sys
answer = json.load(open(sys.argv[1]))
lines = [json.loads(line) for line in open(sys.argv[2])]
ran = [line for line in lines if line["ran"]]
assert len(lines) == 4 and len({line["command"] for line in lines}) == 4, lines
assert answer["cases"] == len(ran) and answer["skipped"] == 4 - len(ran), answer
assert len(ran) >= 3, lines
for name in ("crash", "hang", "desync", "corruption"):
    family = answer["families"][name]
    assert family["cases"] == 1 and family["rank_recall"] == 1, (name, family)
    assert abs(family["rank_recall_low95"] - 0.05) < 1e-9, family  # what one case of one is worth
for name in ("rank_precision", "rank_precision_low95", "rank_recall", "layer_exact", "verdict_p50_s",
             "verdict_p90_s", "steps_p90", "brier", "false_alarms", "healthy_seconds", "false_alarms_per_hour"):
    assert isinstance(answer[name], (int, float)), name
END
tap_result $? "finds each of them, and counts them"

has "the page has the families" "^\| hang \| 1 \| " "$TAP/page.md"
has "and the command" "^    lockstep bench verdicts --all --seed 1 --only crash,hang,desync,corruption" "$TAP/page.md"
has "and what was not right" "^### Wrong cases" "$TAP/page.md"
lacks "but no path of this machine" "$TAP" "$TAP/page.md"

sed -i '1a\
\
Words of somebody else.' "$TAP/page.md"
score env >"$TAP/out" 2>"$TAP/err"
has "what stands above is kept" "^Words of somebody else" "$TAP/page.md"
tap_result "$([ "$(grep -c '^## Generated runs' "$TAP/page.md")" = 1 ]; echo $?)" "and the part that is generated is written anew"
has "what is known is not run again" "4 of 4 cases have results" "$TAP/err"
cmp "$TAP/out" "$TAP/answer"
tap_result $? "and scores the same"

# Parts of a score, each with results of its own, add up to the whole of it.
verdicts()
{
    "$LOCKSTEP" bench verdicts --all --only crash,hang,desync,corruption --cases 1 --healthy 0 --json "$@"
}

verdicts --results "$TAP/results" --sum >"$TAP/out" 2>"$TAP/err"
cmp "$TAP/out" "$TAP/answer"
tap_result $? "--sum runs nothing and counts the same"
mkdir "$TAP/parts"
sed 1d "$TAP/results/results.jsonl" >"$TAP/parts/results.jsonl"
verdicts --results "$TAP/parts" --sum >"$TAP/out" 2>"$TAP/err"
status=$?
[ $status = 3 ]
tap_result $? "a sum that lacks a case is no score"
has "and the cases that lack are counted" "1 of 4 cases have no result in .*results.jsonl" "$TAP/err"
for part in 1/4 2/4 3/4 4/4; do
    verdicts --results "$TAP/parts" --part $part
done >"$TAP/out" 2>"$TAP/err"
[ "$(grep -c "^[0-9]*/4 " "$TAP/err")" = 1 ]
tap_result $? "four parts run the one case that has no result"
[ "$(wc -l <"$TAP/parts/results.jsonl")" = 4 ]
tap_result $? "and store it"
verdicts --results "$TAP/parts" --sum >"$TAP/out" 2>"$TAP/err"
status=$?
[ $status = 0 ] || [ $status = 1 ]
tap_result $? "then the sum is a score"
for part in 0/2 3/2 2 1/2x -1/2 1/; do
    verdicts --results "$TAP/parts" --part $part >"$TAP/out" 2>"$TAP/err"
    [ $? = 2 ] || break
done
has "a part that there is not is refused" "expected K/N" "$TAP/err"
verdicts --part 1/2 >"$TAP/out" 2>"$TAP/err"
has "a part without a place for its results, too" "--part needs --results DIR" "$TAP/err"
done_testing
