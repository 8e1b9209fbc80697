#!/bin/sh
# What-if analysis: a real published trace gives the published numbers, and bad traces one line.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

seeds=$SOURCE/test/fuzz/seeds/optrace
published=$SOURCE/../shared/data/straggler-st

number() # KEY: of the object in $TAP/out, at its top
{
    sed -n "s/^  \"$1\": *\(-\{0,1\}[0-9.e-]*\),\{0,1\}$/\1/p" "$TAP/out"
}

ok "a trace is told" "$LOCKSTEP" whatif "$seeds/two-by-two.csv"
has "with its sizes" '^2 steps of 4 ranks \(dp 2, 2 stages\), 120 ops$' "$TAP/out"
ok "as JSON, too" "$LOCKSTEP" whatif --json "$seeds/two-by-two.csv"
for key in S waste launch M_W M_S; do
    [ -n "$(number $key)" ]
    tap_result $? "it has $key"
done
has "and S per rank" '"S_rank":' "$TAP/out"
cp "$TAP/out" "$TAP/plain"
gzip -c "$seeds/two-by-two.csv" >"$TAP/trace.csv.gz"
ok "gzip is read as well" "$LOCKSTEP" whatif "$TAP/trace.csv.gz" --json
cmp -s "$TAP/out" "$TAP/plain"
tap_result $? "and says the same"

exits 2 "no trace is bad usage" "$LOCKSTEP" whatif
exits 2 "one that is not there" "$LOCKSTEP" whatif "$TAP/nothing.csv"
has "is named" 'nothing.csv: No such file' "$TAP/err"
sed 5s/compute/computer/ "$seeds/two-by-two.csv" >"$TAP/bad.csv"
exits 2 "a bad line is refused" "$LOCKSTEP" whatif "$TAP/bad.csv"
has "with its number" "bad.csv: line 5: optype is 'forward-computer'" "$TAP/err"
head -c 200 "$TAP/trace.csv.gz" >"$TAP/cut.csv.gz"
exits 2 "a gzip that ends early is refused" "$LOCKSTEP" whatif "$TAP/cut.csv.gz"
has "in words" 'cut.csv.gz: gzip ends early' "$TAP/err"
mkfifo "$TAP/fifo"
exits 2 "nobody waits for a fifo" timeout 10 "$LOCKSTEP" whatif "$TAP/fifo"

if command -v python3 >/dev/null; then
    mkdir "$TAP/slow" "$TAP/even"
    python3 "$SOURCE/test/t/kinetolab.py" "$TAP/slow" 2
    python3 "$SOURCE/test/t/kinetolab.py" "$TAP/even" -1 gz
    ok "profiler traces of a job" "$LOCKSTEP" whatif "$TAP/slow" --json
    rank=$(tr -d ' \n' <"$TAP/out" | sed 's/.*"worst_workers":{[^}]*"ranks":\[\([0-9]*\)\].*/\1/')
    [ "$rank" = 2 ]
    tap_result $? "the worst rank is the slow one, though no two clocks agree"
    number S | grep -Eq '^1\.[56]'
    tap_result $? "by as much as it is slow"
    exits 1 "why names it" "$LOCKSTEP" why "$TAP/slow"
    has "as a straggler" '^straggler: rank 2[ :]' "$TAP/out"
    exits 0 "and nobody in a job that is even, packed by gzip" "$LOCKSTEP" why "$TAP/even"
    ok "one trace alone" "$LOCKSTEP" whatif "$TAP/slow/host_1002.2.pt.trace.json"
    mkdir "$TAP/none"
    echo '{"a": 1}' >"$TAP/none/x.json"
    exits 2 "JSON that is no trace" "$LOCKSTEP" whatif "$TAP/none/x.json"
    exits 2 "a directory without traces" "$LOCKSTEP" whatif "$TAP/none"
    has "is named" 'none: no trace of a profiler below it' "$TAP/err"
else
    skip "profiler traces of a job" "no python3 to make them with"
fi

if [ ! -r "$published/trace-ST.csv.gz" ]; then
    skip "a published trace gives the published numbers" "no $published here"
elif ! command -v python3 >/dev/null; then
    skip "a published trace gives the published numbers" "no python3 to compare with"
else
    ok "a published trace is told" "$LOCKSTEP" whatif --json --steps "$published/trace-ST.csv.gz"
    python3 "$SOURCE/test/t/whatif-compare.py" "$TAP/out" "$published" >"$TAP/compared" 2>&1
    tap_result $? "and gives every published number to 1e-4"
    sed 's/^/# /' "$TAP/compared"
fi
done_testing
