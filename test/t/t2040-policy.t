#!/bin/sh
# The policy: dry run without --act, actions with it, the kill switch, crash loops, and a table tried on recorded runs.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

printf 'judge:\n  hang.least-limit: 2\n' >"$TAP/settings.yaml"
LOCKSTEP_CONFIG=$TAP/settings.yaml
export LOCKSTEP_CONFIG

run() # OPTION... -- COMMAND...
{
    timeout -k 5 120 "$LOCKSTEP" run --grace 1s --backoff 400ms "$@"
}

train() # NAME FAULT OPTION...: two ranks, a checkpoint every 10 steps
{
    name=$1
    printf 'lockstep-plan 1\nnodes 1\n%s\n' "$2" >"$TAP/plan"
    shift 2
    run --name "$name" -n 2 "$@" -- "$LOCKSTEP" trainer --steps 60 --step-ms 30 --host-work-ms 0 --timeout 60s \
        --checkpoint-dir "$TAP/saved-$name" --checkpoint-every 10 --plan "$TAP/plan"
}

attempts() # RUN
{
    "$LOCKSTEP" why --json "$1" >"$TAP/json"
    python3 -c 'import json, sys; print(json.load(sys.stdin)["counts"]["attempts"])' <"$TAP/json" 2>/dev/null
}

# Nothing is done to a healthy job.
ok "a healthy job with --act" train healthy '' --act --max-restarts 3
lacks "nothing is done" 'restart|dry run|give' "$TAP/err"
"$LOCKSTEP" why --json healthy >"$TAP/json"
is "and nothing was decided" "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["decisions"])' <"$TAP/json")" "[]"

# A crash is restarted at once with --max-restarts, and the decision is recorded.
ok "a rank that is killed" train kill 'fault kill:rank=1,step=15' --max-restarts 1
has "the first restart is not put off" '^lockstep run: restart 1 of 1$' "$TAP/err"
"$LOCKSTEP" why kill >"$TAP/out"
has "the decision is shown" '^decision: restart because of cr-[0-9a-f]* \(done\): crash: ' "$TAP/out"
lacks "and no other, though it was the last restart" 'no restart is left' "$TAP/out"
"$LOCKSTEP" incident "$(sed -n 's/^decision: restart because of \([^ ]*\) .*/\1/p' "$TAP/out")" --run kill >"$TAP/out"
has "with its outcome" 'launcher: done, the launcher restarted all ranks' "$TAP/out"
ok "decisions replay" "$LOCKSTEP" why --replay kill
has "byte by byte" 'byte-equal$' "$TAP/out"

# A hang: a dry run says what would be done; with --act it is done.
hang() # NAME OPTION...
{
    hang_name=$1
    shift
    train "$hang_name" 'fault gpu-hang:rank=1,step=15' --max-restarts 1 "$@"
}
hang dry >"$TAP/out" 2>"$TAP/err" &
job=$!
await grep -q 'dry run: restart' "$TAP/err"
tap_result $? "a dry run says what would be done"
has "when it pays back, and what is missing" 'is not done: hang-on-bad-hardware: pays back after [0-9]+ s; --act was not given' "$TAP/err"
kill -TERM "$job"
wait "$job"
ok "with --act it is done" hang act --act
has "all ranks are restarted" 'all ranks are restarted$' "$TAP/err"
ok "these decisions replay" "$LOCKSTEP" why --replay act
has "byte by byte, too" 'byte-equal$' "$TAP/out"

# The kill switch, in a running job.
touch "$TAP/state/act.off"
hang switch --act >"$TAP/out" 2>"$TAP/err" &
job=$!
await grep -q 'the kill switch is on' "$TAP/err"
tap_result $? "with the kill switch nothing is done"
has "it is named" '^lockstep run: .*/act\.off exists: no action is carried out$' "$TAP/err"
rm "$TAP/state/act.off"
await grep -q 'all ranks are restarted$' "$TAP/err"
tap_result $? "once it is gone, the job is restarted"
wait "$job"
tap_result $? "and trains to its end"

# Crash loops, and a status that means: do not restart.
exits 3 "a job that fails again and again" run --name loop -q --act --max-restarts 10 -n 2 -- sh -c 'exit 3'
has "is given up" '^lockstep run: crash loop: the last [0-9]+ attempts failed before any step was observed; there is no further attempt$' "$TAP/err"
[ "$(attempts loop)" -lt 9 ]
tap_result $? "before its restarts are used up"
exits 3 "without --act" run --name loop-dry --act --no-act --max-restarts 4 --backoff 200ms -n 2 -- sh -c 'exit 3'
has "it is only written down" '^lockstep run: dry run: give-up is not done: crash loop: ' "$TAP/err"
is "and restarted as often as allowed" "$(attempts loop-dry)" 5
exits 93 "status 93" run --name status -q --max-restarts 3 -n 2 -- sh -c 'exit 93'
has "is not restarted" '^lockstep run: status 93 means: do not restart$' "$TAP/err"
is "at all" "$(attempts status)" 1

# A table of one's own, and mistakes in it.
printf 'limits:\n  no-restart-exit: [7]\nhang:\n  kind: hang\n  action: alert\n  reason: people look\n' >"$TAP/own.yaml"
exits 7 "a table of one's own" run --name own -q --policy "$TAP/own.yaml" --max-restarts 3 -n 1 -- sh -c 'exit 7'
has "counts" '^lockstep run: status 7 means: do not restart$' "$TAP/err"
printf 'hang:\n  kind: hnag\n' >"$TAP/bad.yaml"
exits 2 "a mistake in a table" "$LOCKSTEP" run --policy "$TAP/bad.yaml" -- true
has "is named with its place" "^lockstep run: $TAP/bad.yaml:2:9: key 'kind': unknown value 'hnag'; did you mean 'hang'\?" "$TAP/err"

# Back-test.
ok "a policy is tried on a healthy run" "$LOCKSTEP" act --backtest default healthy
lacks "it is left alone" 'restart|swap|checkpoint|give-up' "$TAP/out"
ok "and on one that hung" "$LOCKSTEP" act --backtest default act
has "it is not left alone" ' swap node .*: hang-on-bad-hardware: pays back after ' "$TAP/out"
ok "also in JSON" "$LOCKSTEP" act --backtest default --json act
cat >"$TAP/check.py" <<'END'
import json, sys
root = json.load(sys.stdin)
names = "time verdict action rule target saves_gpu_seconds costs_gpu_seconds".split()
first = root["decisions"][0]
assert all(name in first for name in names), first
first = next(one for one in root["decisions"] if one["action"] == "swap")
assert first["rule"] == "hang-on-bad-hardware" and first["saves_gpu_seconds"] > first["costs_gpu_seconds"], first
END
mv "$TAP/out" "$TAP/json"
ok "with the names that scripts read" sh -c 'python3 "$1" <"$2"' sh "$TAP/check.py" "$TAP/json"
"$LOCKSTEP" act --backtest "$TAP/own.yaml" act >"$TAP/out"
has "another table decides otherwise" ' alert run: hang: people look$' "$TAP/out"
lacks "and only so" 'restart|swap' "$TAP/out"
exits 2 "a table with a mistake" "$LOCKSTEP" act --backtest "$TAP/bad.yaml" act
exits 2 "no table" "$LOCKSTEP" act act
has "says what is missing" '^lockstep act: needs --backtest POLICY' "$TAP/err"
done_testing
