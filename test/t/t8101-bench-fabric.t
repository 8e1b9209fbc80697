#!/bin/sh
# Six drawn networks of namespaces: the slow adapter, uplink, direction, pair or two of them are named, and nothing in a
# healthy one.  Rates are real ones, so other load repeats it.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

[ "$(id -u)" = 0 ] || skip_all "needs root, for network namespaces"
unshare -n true 2>/dev/null || skip_all "no network namespaces here"
{ command -v ip && command -v tc; } >/dev/null || skip_all "needs ip and tc (iproute2)"
exits 2 "refuses a fault that it does not know" "$LOCKSTEP" bench fabric --only nonsense
exits 2 "and networks that are too large" "$LOCKSTEP" bench fabric --nodes 33

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}

six()
{
    timeout -k 5 400 "$LOCKSTEP" bench fabric --json --cases 6 --nodes 10 --seed 3 >"$TAP/out" 2>"$TAP/err"
    status=$?
    [ $status = 0 ] || [ $status = 1 ]
    tap_result $? "six networks are tested"
    is "the names that others use" "$(value '[k in d for k in ("cases", "precision", "recall")]')" "[True, True, True]"
    is "all of them" "$(value 'd["cases"]')" 6
    [ $status = 0 ]
    timed_result $? "each fault is named, and nothing else"
}
timed six

# An interrupt leaves nothing behind.
mkdir "$TAP/tmp"
TMPDIR=$TAP/tmp "$LOCKSTEP" bench fabric --cases 6 --nodes 8 >"$TAP/out" 2>"$TAP/err" &
bench=$!
workers() { pgrep -P "$bench" >"$TAP/workers"; [ "$(wc -l <"$TAP/workers")" -ge 4 ]; }
await workers
kill -TERM $bench
wait $bench
is "an interrupted one could not tell" $? 3
is "no file is left" "$(ls "$TAP/tmp")" ""
gone() { ! xargs ps -o stat= -p <"$TAP/workers" | grep -qv Z; }
await gone
tap_result $? "nor a process"
done_testing
