#!/bin/sh
# The environments of ranks: what differs is shown, secrets are nowhere, and the log replays byte-equal.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

cat >"$TAP/rank" <<'END'
#!/bin/sh
[ "$RANK" = 1 ] && export NCCL_ALGO="$OTHER_ALGO"
exec "$LOCKSTEP" trainer --steps 40 --step-ms 20 --host-work-ms 0
END
chmod +x "$TAP/rank"

run() # NAME OTHER-ALGO DEBUG
{
    env LOCKSTEP="$LOCKSTEP" NCCL_ALGO=Ring OTHER_ALGO="$2" NCCL_DEBUG="$3" AWS_SECRET_ACCESS_KEY=hunter2-aws \
        HF_TOKEN=hunter2-hf NCCL_PASSWORD=hunter2-nccl PLAIN_NAME=hunter2-plain \
        UCX_PROXY=http://me:hunter2-url@proxy timeout -k 5 60 "$LOCKSTEP" run -n 2 --name "$1" -- "$TAP/rank"
}

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' \
        "$TAP/answer" "$1"
}

ok "two ranks with different settings" run mixed Tree WARN
"$LOCKSTEP" why --json mixed >"$TAP/answer" 2>"$TAP/err"
is "both environments are known" "$(value 'd["environment"]["ranks"]')" 2
is "the setting is named, with its rank" \
    "$(value '[(x["name"], x["usual"], x["value"], x["rank"], x["digest"]) for x in d["environment"]["differences"]]')" \
    "[('NCCL_ALGO', 'Ring', 'Tree', 1, False)]"
is "it is no verdict" "$(value 'len([v for v in d["verdicts"] if "environment" in v["kind"]])')" 0
"$LOCKSTEP" why mixed >"$TAP/out" 2>"$TAP/err"
has "the same for people" '^  NCCL_ALGO: Tree on rank 1 \(node [^)]*\), Ring on 1 other$' "$TAP/out"
ok "the log replays byte-equal" "$LOCKSTEP" why --replay mixed

ok "two ranks with the same settings" run alike Ring INFO
"$LOCKSTEP" why --json alike >"$TAP/answer" 2>"$TAP/err"
is "both are known, too" "$(value 'd["environment"]["ranks"]')" 2
is "and nothing differs" "$(value 'd["environment"]["differences"]')" "[]"
"$LOCKSTEP" diff --json mixed alike >"$TAP/answer" 2>"$TAP/err"
is "two runs differ in a setting" \
    "$(value '[(x["name"], x["before"], x["after"]) for x in d["environment"]["changes"] if not x["digest"]]')" \
    "[('NCCL_DEBUG', 'WARN', 'INFO')]"
is "and in one whose values are only digests" \
    "$(value '[(x["name"], len(x["before"]), len(x["after"])) for x in d["environment"]["changes"] if x["digest"]]')" \
    "[('OTHER_ALGO', 5, 5)]"
"$LOCKSTEP" diff mixed alike >"$TAP/out" 2>"$TAP/err"
has "in one line" '^  NCCL_DEBUG: INFO, before: WARN$' "$TAP/out"
"$LOCKSTEP" diff mixed mixed >"$TAP/out" 2>"$TAP/err"
lacks "a run does not differ from itself" 'environment' "$TAP/out"

# The launcher's own command line and environment are not recorded, so no file of either run has a secret.
grep -rla 'hunter2' "$LOCKSTEP_STATE" >"$TAP/found"
is "no secret is in spool, log or any other file" "$(cat "$TAP/found")" ""
grep -rlaE 'AWS_SECRET_ACCESS_KEY|HF_TOKEN|NCCL_PASSWORD' "$LOCKSTEP_STATE" >"$TAP/found"
is "nor the name of one" "$(cat "$TAP/found")" ""
ok "but the name of another variable is" grep -qa PLAIN_NAME "$LOCKSTEP_STATE/runs/mixed/log.lsf"
done_testing
