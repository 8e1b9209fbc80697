#!/bin/sh
# `lockstep request checkpoint`: all ranks of a run save at the end of the same step, on a busy machine, across a restart, and
# when the order came too late for the first step.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

RANKS=4
launcher= load=
trap 'kill -9 $launcher $load 2>/dev/null; rm -rf "$TAP"' EXIT

train() # NAME [OPTION...] -- [TRAINER-OPTION...]
{
    name=$1 options=
    shift
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # several options
    timeout -k 5 280 "$LOCKSTEP" run -q --name "$name" -n $RANKS --grace 1s --backoff 100ms $options -- \
        "$LOCKSTEP" trainer --steps 100000 --step-ms 20 "$@" >"$TAP/$name.out" 2>"$TAP/$name.err" &
    launcher=$!
    await test -s "$LOCKSTEP_STATE/runs/$name/control.url"
    rings=$(sed -n 's/.*"rings": *"\([^"]*\)".*/\1/p' "$LOCKSTEP_STATE/runs/$name/run.json")
    await past 0 10
}

ring() # RANK: its newest ring
{
    ls -t "$rings/rank-$1".*.ring 2>/dev/null | head -n 1
}

past() # RANK STEP: has it begun a later one?
{
    [ "$(od -An -t d8 -j 256 -N 8 "$(ring "$1")" | tr -d ' ')" -gt "$2" ]
}

pid_of() # RANK
{
    od -An -t d4 -j 44 -N 4 "$(ring "$1")" | tr -d ' '
}

stop()
{
    kill -TERM "$launcher"
    wait "$launcher"
    launcher=
}

saved() # FILE: the steps at which ranks saved, each once
{
    sed -n 's/^rank [0-9]*: saved at step \([0-9]*\)$/\1/p' "$1" | sort -u
}

sh -c 'while :; do :; done' &
load=$!

# A rank is killed between the request and its step: the next attempt gets a step of its own.
train r1 --max-restarts 3 -- --checkpoint-dir "$TAP/saved" --checkpoint-every 1000000
"$LOCKSTEP" request checkpoint r1 >"$TAP/out" 2>"$TAP/err" &
asker=$!
await grep -q 'ordered for the end of step' "$TAP/err"
kill -9 "$(pid_of 2)"
wait $asker
is "a request is served, with a restart in between" $? 0
is "by every rank" "$(grep -c '^rank [0-3]: saved at step' "$TAP/out")" $RANKS
is "at one step" "$(saved "$TAP/out" | wc -l)" 1
is "the step was ordered twice" "$(grep -c 'ordered for the end' "$TAP/err")" 2
step=$(saved "$TAP/out")
is "the checkpoint is of that step, and there is no other" "$(ls "$TAP/saved")" "step-$((step + 1))"
is "each rank has its part of it" "$(ls "$TAP/saved/step-$((step + 1))" | grep -c '\.safetensors$')" $RANKS

# The launcher is stopped until all ranks are past the step: nobody saves at it, and another one is ordered.
kill -STOP "$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$LOCKSTEP_STATE/runs/r1/run.json")"
"$LOCKSTEP" request checkpoint --json r1 >"$TAP/answer" 2>"$TAP/late.err" &
asker=$!
await grep -q 'ordered for the end of step' "$TAP/late.err" # a file of its own: the last one has such lines until the command begins
first=$(sed -n 's/.*ordered for the end of step //p' "$TAP/late.err")
for rank in 0 1 2 3; do
    await past $rank "$first"
done
kill -CONT "$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$LOCKSTEP_STATE/runs/r1/run.json")"
wait $asker
is "an order that came too late is renewed" $? 0
python3 - "$TAP/answer" "$first" $RANKS <<'END' >"$TAP/out" 2>&1
import json, sys
answer, first, ranks = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
old, new = answer["decisions"][0], answer["decisions"][-1]
assert old["step"] == first and old["state"] == "superseded", old
assert "was past step %d" % first in old["why"], old
by = {o["part"]: o for o in old["outcomes"]}
assert by["launcher"]["result"] == "past", by
assert all(by["rank %d" % r]["result"] in ("past", "not-executed") for r in range(ranks)), by
assert new["state"] == "ordered" and new["step"] > first, new
done = {o["part"]: o for o in new["outcomes"]}
assert {done["rank %d" % r]["step"] for r in range(ranks)} == {new["step"]}, done
assert {done["rank %d" % r]["result"] for r in range(ranks)} == {"done"}, done
END
is "ranks that were past say so, and all save at the later step" $? 0
exits 2 "a depth that is none is refused" "$LOCKSTEP" request depth --depth nonsense r1
stop
"$LOCKSTEP" why --replay r1 >"$TAP/out" 2>&1
has "the log gives the same decisions again" 'byte-equal$' "$TAP/out"
exits 2 "a run that has ended takes no request" "$LOCKSTEP" request checkpoint r1

# A program that cannot save refuses, and the command says so.
train r2 --
exits 1 "a program that writes no checkpoints" "$LOCKSTEP" request checkpoint r2
is "refuses, in every rank" "$(grep -c '^rank [0-3]: refused.*cannot do it' "$TAP/out")" $RANKS
has "with the reason" 'launcher: 0 of 4 ranks did it' "$TAP/err"
ok "another event depth works all the same" "$LOCKSTEP" request depth --depth steps r2
is "in every rank, from one step on" "$(sed -n 's/^rank [0-3]: done at step //p' "$TAP/out" | wc -l)" $RANKS
ok "a dry run names the controller" "$LOCKSTEP" request checkpoint --dry-run r2
has "and the run" 'checkpoint-now of run r2 at http://127.0.0.1' "$TAP/out"
stop
done_testing
