#!/bin/sh
# A drill: only a job that consented gets faults; what follows is scored, and what cannot be injected is named and not counted.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
trap 'for run in free bound; do kill -TERM "$(launcher $run)" 2>/dev/null; done; wait; rm -rf "$TAP"' EXIT
launcher() { sed -n 's/^ *"pid": *\([0-9]*\),$/\1/p' "$LOCKSTEP_STATE/runs/$1/run.json"; }
begin() # RUN OPTION...
{
    begin_run=$1
    shift
    timeout -k 5 400 "$LOCKSTEP" run -q --name "$begin_run" -n 2 --max-restarts 5 --grace 2s "$@" -- \
        "$LOCKSTEP" trainer --steps 100000 --step-ms 20 --host-work-ms 0 --checkpoint-dir "$TAP/$begin_run" >"$TAP/$begin_run.out" 2>&1 &
    await test -s "$LOCKSTEP_STATE/runs/$begin_run/run.json"
}

ok "the faults are listed" "$LOCKSTEP" drill --list-faults
has "with their bars" 'bars: verdict crash after' "$TAP/out"
exits 2 "without a run it is bad usage" "$LOCKSTEP" drill
exits 2 "and with an unknown fault" "$LOCKSTEP" drill --fault nosuch free

begin free
exits 2 "a job that did not consent is refused" "$LOCKSTEP" drill free
has "with how to consent" "did not consent: .*'lockstep run --drill'" "$TAP/err"
kill -TERM "$(launcher free)"
exits 3 "a run that is not there is refused" "$LOCKSTEP" drill nosuch

begin bound --drill
ok "one that consented gets faults" "$LOCKSTEP" drill --json --wait 100s --fault rank-killed --fault controller-killed --fault link-cut bound
score() { python3 -c 'import json,sys; d = json.load(open(sys.argv[1])); f = {x["fault"]: x for x in d["faults"]}; print(eval(sys.argv[2]))' "$TAP/out" "$1"; }
if command -v python3 >/dev/null; then
    is "its score" "$(score 'd["score"]')" 1.0
    is "a killed rank is found and the job trains again" "$(score '[f["rank-killed"][k] for k in ("right", "passed")]')" '[True, True]'
    is "in a measured time" "$(score 'f["rank-killed"]["recovered_s"] > f["rank-killed"]["detected_s"] > 0')" True
    is "a killed controller is no fault of the job" "$(score '[f["controller-killed"][k] for k in ("verdict", "passed")]')" '[None, True]'
    is "what cannot be injected is named and not counted" "$(score '[f["link-cut"][k] for k in ("skipped", "passed")]')" '[True, False]'
else
    skip "the score" "no python3 here"
fi

# A drill that is killed leaves no rank stopped.
"$LOCKSTEP" drill --wait 100s --fault rank-stopped bound >"$TAP/out" 2>&1 &
drill=$!
ranks() { pgrep -f "trainer --steps 100000.*--checkpoint-dir $TAP/bound"; }
stopped() { for pid in $(ranks); do sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null; done | grep -q T; }
await stopped
tap_result $? "a rank is stopped"
kill -9 $drill
none_stopped() { ! stopped; }
await none_stopped
tap_result $? "and goes on when the drill is killed"
kill -TERM "$(launcher bound)"
done_testing
