#!/bin/sh
# The score card of runs with known faults, and one of its verdicts on one screen; from the directory of a run and from
# a controller.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/answer" "$1"
}

timeout -k 5 100 "$LOCKSTEP" demo --json --ranks 4 --nodes 2 --steps 40 --step-ms 50 --checkpoint-every 10 --name bad \
    --fault gpu-slow:rank=2,factor=3,step=5 --fault kill:rank=1,step=25 >"$TAP/demo" 2>&1
is "a run with a slow and a killed rank" $? 0
begin=$(date +%s)
LOCKSTEP_JOB_SUBMIT_TIME=$((begin - 100)) SLURM_JOB_START_TIME=$((begin - 40)) \
    timeout -k 5 100 "$LOCKSTEP" demo --json --ranks 2 --steps 12 --step-ms 30 --checkpoint-every 0 --name sound \
    --fault none >"$TAP/demo" 2>&1
is "a sound run" $? 0

ok "the score card" "$LOCKSTEP" report --json --parameters 1e6 --peak-tflops 2 --price 4 bad
cp "$TAP/out" "$TAP/answer"
is "has the names that programs rely on" "$(value 'set("goodput ettr mfu mfu_formula mttf_seconds mttf_low mttf_high \
time_to_first_step_seconds time_to_steady_seconds checkpoint_p50_s checkpoint_p99_s pauses_per_hour \
learning_velocity dearest".split()) <= set(d)')" True
is "one attempt failed" "$(value 'd["failures"], d["attempts"]')" "(1, 2)"
is "so the time to failure is the exposure, inside its interval" \
    "$(value 'd["mttf_seconds"] == d["exposure_seconds"] and d["mttf_low"] < d["mttf_seconds"] < d["mttf_high"]')" True
is "goodput is that of the ledger" "$(value 'd["goodput"] == d["ledger"]["goodput"] and 0 < d["goodput"] < 1')" True
is "MFU follows from its formula" \
    "$(value 'abs(d["mfu"] / (d["tokens_per_second"] * 6e6 / (4 * 2e12)) - 1) < 1e-6')" True
is "each checkpoint is counted" "$(value 'd["checkpoints"] >= 3 and 0 < d["checkpoint_p50_s"] <= d["checkpoint_p99_s"]')" True
is "the loss fell, and money divides" \
    "$(value 'd["loss_first"] > d["loss_last"] and abs(d["learning_velocity"] / d["learning_velocity_per_money"] - 4) < 1e-6')" True
is "every null has a reason" "$(value '[k for k, v in d.items() if v is None and k not in d["unknown"]]')" "[]"
is "and no number has one" "$(value '[k for k in d["unknown"] if d.get(k) is not None]')" "[]"
is "the straggler is among the dearest verdicts" "$(value '("straggler", [2]) in [(v["kind"], v["ranks"]) for v in d["dearest"]]')" True
is "by falling cost" "$(value '[v["cost"]["gpu_seconds"] for v in d["dearest"]] == sorted((v["cost"]["gpu_seconds"] for v in d["dearest"]), reverse=True)')" True
is "without its node all its cost is saved" "$(value '[s["gpu_seconds"] for s in d["savings"] if s["without"] == "node n1"][0] >= \
[v["cost"]["gpu_seconds"] for v in d["dearest"] if v["ranks"] == [2]][0]')" True
timeout -k 5 100 "$LOCKSTEP" demo --json --ranks 2 --steps 12 --step-ms 30 --checkpoint-every 4 --name alone \
    --fault kill:rank=1,step=6 >"$TAP/demo" 2>&1
"$LOCKSTEP" report --json alone >"$TAP/alone"
is "without its only node there is no run" \
    "$(python3 -c 'import json, sys; print({s["without"].split()[0] for s in json.load(open(sys.argv[1]))["savings"]})' "$TAP/alone")" "{'faults'}"
is "its steps are those that lockstep why counts" "$(value 'd["steps"]')" \
    "$("$LOCKSTEP" why --json bad | python3 -c 'import json, sys; print(json.load(sys.stdin)["ledger"]["steps"])')"
is "of which not all need be measured" "$(value 'd["steps"] - 2 <= d["steps_measured"] <= d["steps"]')" True
straggler=$(value '[v["id"] for v in d["dearest"] if v["ranks"] == [2]][0]')
crash=$(value '[v["id"] for v in d["dearest"] if v["kind"] == "crash"][0]')

ok "the same for people" "$LOCKSTEP" report bad
has "published figures beside" '^  ettr +[0-9.]+ % +published: 97 to 98 %$' "$TAP/out"
has "MFU is not made up" '^  mfu +not known' "$TAP/out"
has "its reason" '--peak-tflops' "$TAP/out"
has "its formula" 'mfu = tokens x FLOP per token' "$TAP/out"
has "the interval" 'with 95 % confidence: 1 failure in' "$TAP/out"

ok "a run without a failure" "$LOCKSTEP" report --json sound
cp "$TAP/out" "$TAP/answer"
is "is steady no earlier than its first step" \
    "$(value 'd["time_to_steady_seconds"] is None or d["time_to_steady_seconds"] >= d["time_to_first_step_seconds"]')" True
is "the scheduler's times are queue and prolog" "$(value 'd["queue_seconds"], 40 <= d["prolog_seconds"] < 100')" "(60.0, True)"
is "has a lower bound only" "$(value 'd["mttf_seconds"], d["mttf_high"], d["mttf_low"] > 0')" "(None, None, True)"
is "and no checkpoints, which is said" "$(value 'd["checkpoint_p50_s"], "checkpoint" in d["unknown"]["checkpoint_p50_s"]')" \
    "(None, True)"
ok "both together" "$LOCKSTEP" report bad sound --json
cp "$TAP/out" "$TAP/answer"
is "are one exposure" \
    "$(value 'len(d["runs"]), abs(d["exposure_seconds"] - sum(r["exposure_seconds"] for r in d["runs"])) < 1e-6, d["failures"]')" \
    "(2, True, 1)"

exits 0 "a verdict that is over" "$LOCKSTEP" incident --json "$crash"
cp "$TAP/out" "$TAP/answer"
is "is that verdict" "$(value 'd["verdict"]["id"]')" "$crash"
is "in order of time" "$(value '[e["time"] for e in d["timeline"]] == sorted(e["time"] for e in d["timeline"])')" True
is "with the exit of its rank" "$(value 'any("rank 1 killed by signal 9" in e["what"] for e in d["timeline"])')" True
is "and the restart" "$(value 'any(e["what"] == "attempt 1 begins" for e in d["timeline"])')" True
is "what was done is told once, by its end" \
    "$(value '[e["what"].split(",")[0] for e in d["timeline"] if e["source"] == "action"]')" "['launcher: done']"
"$LOCKSTEP" incident "$crash" >"$TAP/out" 2>"$TAP/err"
has "the action for people" '^  restart \(done\): ' "$TAP/out"
"$LOCKSTEP" why bad >"$TAP/out" 2>"$TAP/err"
has "and in lockstep why" "^decision: restart because of $crash \\(done\\): " "$TAP/out"
"$LOCKSTEP" why --follow --json bad >"$TAP/out" 2>"$TAP/err"
is "what is followed after its end is one object a line, too" \
    "$(python3 -c 'import json, sys; print(sorted({json.loads(l)["kind"] for l in open(sys.argv[1])}))' "$TAP/out")" "['crash', 'straggler']"
"$LOCKSTEP" incident "$straggler" >"$TAP/out" 2>"$TAP/err"
for part in 'time line' evidence actions cost; do
    has "for people: $part" "^$part\$" "$TAP/out"
done
has "the cost as a share" 'GPU-seconds.*% of the run$' "$TAP/out"
is "on one screen" "$(($(wc -l <"$TAP/out") <= 40))" 1
exits 2 "another id" "$LOCKSTEP" incident st-00000000
has "says where ids are" 'lockstep why prints ids' "$TAP/err"
exits 2 "no id" "$LOCKSTEP" incident '../x'
exits 2 "a run that is not there" "$LOCKSTEP" report nowhere
mkdir -p "$TAP/empty/spool"
echo "{}" >"$TAP/empty/run.json"
exits 3 "a run without steps" "$LOCKSTEP" report --json "$TAP/empty/."
cp "$TAP/out" "$TAP/answer"
is "nor does its ledger" "$(value 'd["ledger"] and d["ledger"]["goodput"]')" None
is "invents nothing" "$(value '[d[k] for k in ("goodput", "ettr", "mfu", "mttf_seconds", "time_to_first_step_seconds", "learning_velocity")]')" \
    "[None, None, None, None, None, None]"

# A state directory that is none is a mistake of whoever named it, whatever the command.
: >"$TAP/file"
for command in ps why report "incident cr-00000000" "trace export bad $TAP/x.json" "diff bad sound" "relay --once --to -"; do
    # shellcheck disable=SC2086 # words
    exits 2 "$command of a file" env LOCKSTEP_STATE="$TAP/file" "$LOCKSTEP" $command
done

# The same from a site's controller.
site_start
printf 'lockstep-plan 1\nnodes 2\nfault gpu-slow:rank=1,factor=4,step=10\n' >"$TAP/plan"
LOCKSTEP_STATE=$TAP/user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token timeout -k 5 100 \
    "$LOCKSTEP" run -q --name slow -n 4 --nodes 2 -- "$LOCKSTEP" trainer --steps 40 --step-ms 20 --plan "$TAP/plan" \
    >"$TAP/run.out" 2>"$TAP/run.err"
is "a run of a site" $? 0
ask() # COMMAND...
{
    env LOCKSTEP_STATE="$TAP/nobody" LOCKSTEP_CONTROL="$url" LOCKSTEP_TOKEN_FILE="$site/tokens/reader.token" "$LOCKSTEP" "$@"
}
ok "the score card from a controller" ask report --json slow
cp "$TAP/out" "$TAP/answer"
is "has its steps and its verdict" "$(value 'd["steps"], d["failures"], d["dearest"][0]["ranks"]')" "(40, 0, [1])"
grep -v '"alive"' "$TAP/answer" >"$TAP/remote"
LOCKSTEP_STATE=$site "$LOCKSTEP" report --json slow 2>"$TAP/err" | grep -v '"alive"' >"$TAP/beside"
ok "as beside the log, but that its controller writes there" cmp "$TAP/remote" "$TAP/beside"
verdict=$(value 'd["dearest"][0]["id"]')
ask incident "$verdict" >"$TAP/out" 2>"$TAP/err"
has "an incident from a controller" '^straggler: rank 1 ' "$TAP/out"
exits 2 "an id that the site does not have" ask incident cr-00000000
site_stop
done_testing
