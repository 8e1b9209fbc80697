#!/bin/sh
# Recorded runs of ordinary training programs, judged again by the judges of this version: never worse than floor.tsv says.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

floor() # HALF COLUMN
{
    awk -F '\t' -v half="$1" -v column="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) at = i }
        $1 == half { print $at }' "$SOURCE/test/recorded/runs/floor.tsv"
}

sum() # COLUMN
{
    sed -n "s/^ *\"$1\": \\([0-9]*\\),*$/\\1/p" "$TAP/sums"
}

for half in dev scored; do
    ok "the $half half is judged again" "$SOURCE/tools/recorded-runs" score "${LOCKSTEP%/*}" --half $half --json
    cp "$TAP/out" "$TAP/sums"
    for column in healthy_silent kind_right rank_right layer_right; do
        ok "$half: $column is $(sum $column), at least $(floor $half $column)" \
            test "$(sum $column)" -ge "$(floor $half $column)"
    done
    ok "$half: wrong_rank_sure is $(sum wrong_rank_sure), at most $(floor $half wrong_rank_sure)" \
        test "$(sum wrong_rank_sure)" -le "$(floor $half wrong_rank_sure)"
    # One half was looked at while the limits of confidence were set, the other was not.
    ok "$half: of $(sum slow_verdicts) verdicts on slowness $(sum slow_right_pct) % are right, as sure as they are: $(sum slow_confidence_pct) %" \
        test "$(sum slow_right_pct)" -ge "$(sum slow_confidence_pct)"
done

# A job that works outside of what the probe sees is not idle there.
mkdir "$TAP/outside"
gzip -dc "$SOURCE"/test/recorded/runs/*/manual-four.busy.lsf.gz >"$TAP/outside/log.lsf"
"$LOCKSTEP" why --again --json "$TAP/outside" >"$TAP/answer"
python3 - "$TAP/answer" <<'END'
import json, sys
seconds = json.load(open(sys.argv[1]))["ledger"]["buckets"]
assert seconds["productive"] > seconds["unattributed"], seconds
END
is "time outside of any phase is productive where nothing shows otherwise" $? 0
done_testing
