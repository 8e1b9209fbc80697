#!/bin/sh
# Ranks that do not move, from the fault to the restart: one that hangs is named with what it is doing, the others
# never; a dead one with its last words.  Which faults are told apart is for `lockstep bench verdicts --only hang`.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

# About a limit of ten seconds: the one thing here that takes time.
stuck()
{
    timed_ok "a rank whose host never comes back" 100 "$LOCKSTEP" demo --json --ranks 4 --steps 26 \
        --checkpoint-every 5 --name stuck --fault stuck-code:rank=2,step=20 || return
    cp "$TAP/out" "$TAP/answer"
    python3 - "$TAP/answer" <<'END' >"$TAP/out" 2>&1
import json, sys
answer = json.load(open(sys.argv[1]))
hangs = [v for v in answer["verdicts"] if v["kind"] in ("hang", "desync", "crash")]
assert len(hangs) == 1, hangs
hang = hangs[0]
assert hang["kind"] == "hang" and hang["layer"] == "user-code" and hang["ranks"] == [2], hang
text = " ".join(line["what"] for line in hang["because"])
assert "3 ranks wait for it" in text and "in forward" in text, text
stacks = [line for line in hang["because"] if "stack" in line["source"]]
if any(line["source"] == "native stack" for line in stacks):
    assert any("trainer_stuck_phase" in line["what"] for line in stacks), stacks
assert hang["until_time"], "it is over once training goes on"
assert answer["ledger"]["buckets"]["hang"] > 20, answer["ledger"]
assert answer["exit"] == 0, answer["exit"]
END
    timed_result $? "is named alone, with what it does, and the run is started again" || return
    ok "the log gives the same verdicts when it is judged again" "$LOCKSTEP" why --replay stuck
    has "byte for byte" "byte-equal" "$TAP/out"
    cp -r "$LOCKSTEP_STATE/runs/stuck" "$TAP/logless" && rm "$TAP/logless/log.lsf"
    exits 1 "without its log" "$LOCKSTEP" why "$TAP/logless"
    has "the spools alone tell the hang" "^hang: rank 2 .* blocks all others since step 20" "$TAP/out"
    has "and that there is no log" "judged now from the spools" "$TAP/out"
}
timed stuck

exits 1 "a rank that dies of an exception" "$LOCKSTEP" run --quiet -n 2 --grace 1s --name boom -- sh -c '
    if [ "$RANK" = 1 ]; then
        echo "Traceback (most recent call last):" >&2
        echo "ValueError: sample 4711 is broken" >&2
        exit 1
    fi
    sleep 30'
exits 1 "is explained" "$LOCKSTEP" why boom
has "by its own last words" "rank 1 .*exited with 1: ValueError: sample 4711 is broken" "$TAP/out"
exits 2 "a wish that is not known is refused" "$LOCKSTEP" run --on-hang pray -n 2 -- true
has "with those that are" "alert or restart" "$TAP/err"
done_testing
