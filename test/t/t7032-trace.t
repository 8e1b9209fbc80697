#!/bin/sh
# Exported traces keep the rules of the format: nesting, arrows, clocks; and the checker finds those that do not.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

checks() { python3 "$SOURCE/test/t/trace-check.py" "$@"; }
value() # FILE EXPRESSION of d, the trace, and e, its events
{
    python3 -c 'import gzip, json, sys
d = json.load(gzip.open(sys.argv[1])); e = d["traceEvents"]; print(eval(sys.argv[2]))' "$1" "$2"
}
spoil() # EXPRESSION that changes e: a copy of the trace that is not right
{
    python3 -c 'import gzip, json, sys
d = json.load(gzip.open(sys.argv[1])); e = d["traceEvents"]; exec(sys.argv[3]); json.dump(d, open(sys.argv[2], "w"))' \
        "$TAP/all.json.gz" "$TAP/bad.json" "$1"
}

timeout -k 5 100 "$LOCKSTEP" demo --json --ranks 4 --nodes 2 --layout tp=1,pp=2,dp=2 --steps 30 --step-ms 40 --name r \
    --fault gpu-slow:rank=2,factor=3,step=8 --fault kill:rank=1,step=20 >"$TAP/demo" 2>&1
is "a run with a pipeline, a slow rank and a restart" $? 0
ok "its trace" "$LOCKSTEP" trace export r "$TAP/all.json.gz"
ok "keeps the rules" checks "$TAP/all.json.gz" 2 4
# The step in which the rank was killed may have ended or not.
is "every whole step is in it" "$(value "$TAP/all.json.gz" 'len({(x["name"], x["args"]["attempt"]) for x in e if x.get("cat") == "step"})')" \
    "$("$LOCKSTEP" why --json r 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["ledger"]["steps"])')"
is "with arrows of collectives and of messages" "$(value "$TAP/all.json.gz" '{"all-reduce", "send"} <= {x["name"] for x in e if x["ph"] == "s"}')" True
ok "the steps of the slow rank" "$LOCKSTEP" trace export --steps 10-18 r "$TAP/slow.json.gz"
is "arrows come from the rank that was last: the slow one in its group" "$(value "$TAP/slow.json.gz" \
    '[sum(x["tid"] // 64 == r for x in e if x["ph"] == "s" and x["name"] == "all-reduce") for r in (2, 3)]' |
    tr -d '[],' | awk '{ print ($1 > 2 * $2) }')" 1
is "verdicts are slices" "$(value "$TAP/all.json.gz" '{x["args"]["kind"] for x in e if x.get("cat") == "verdict"} >= {"straggler", "crash"}')" True
exits 2 "it is no trace of a profiler" "$LOCKSTEP" whatif "$TAP/slow.json.gz"
has "and has other answers" "lockstep why.* about its run" "$TAP/err"
ok "some steps of some ranks" "$LOCKSTEP" trace export --steps 10-12 --ranks 0,2-3 --json r "$TAP/some.json.gz"
has "three steps" '"rank_steps": 9' "$TAP/out"
ok "keep the rules" checks "$TAP/some.json.gz"
is "and are those" "$(value "$TAP/some.json.gz" 'sorted({(x["name"], x["args"]["rank"]) for x in e if x.get("cat") == "step"})[::4]')" \
    "[('step 10', 0), ('step 11', 2), ('step 12', 3)]"
ok "without compression" "$LOCKSTEP" trace export --steps 10 r "$TAP/plain.json"
has "one step is not many" 'plain.json: 1 step, [0-9]+ slices, ' "$TAP/out"
ok "it is plain JSON" python3 -m json.tool "$TAP/plain.json"
ok "and keeps the rules" checks "$TAP/plain.json"

spoil '[x for x in e if x["ph"] == "X"][5]["dur"] += 1e7'
exits 1 "the checker finds slices that do not nest" checks "$TAP/bad.json"
spoil 'next(x for x in e if x["ph"] == "f")["ts"] = 0'
exits 1 "... arrows that go back" checks "$TAP/bad.json"
spoil 'e.remove(next(x for x in e if x["ph"] == "f"))'
exits 1 "... arrows without an end" checks "$TAP/bad.json"
spoil 'next(x for x in e if x["ph"] == "s")["tid"] += 1000'
exits 1 "... arrows from nowhere" checks "$TAP/bad.json"
spoil 'e.remove(next(x for x in e if x["name"] == "thread_name"))'
exits 1 "... threads without a name" checks "$TAP/bad.json"
spoil 'd["otherData"]["arrows_left_out"] = 10 ** 6'
exits 1 "... clocks that are not aligned" checks "$TAP/bad.json"

exits 3 "steps that there are not" "$LOCKSTEP" trace export --steps 1000-2000 r "$TAP/none.json.gz"
is "leave no file" "$(find "$TAP" -name 'none*' | wc -l)" 0
exits 2 "steps that are none" "$LOCKSTEP" trace export --steps 7-3 r "$TAP/none.json.gz"
exits 2 "ranks that are none" "$LOCKSTEP" trace export --ranks 1,,2 r "$TAP/none.json.gz"
exits 2 "no file" "$LOCKSTEP" trace export r
exits 2 "a directory that there is not" "$LOCKSTEP" trace export r "$TAP/nowhere/x.json.gz"
done_testing
