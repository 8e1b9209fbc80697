#!/bin/sh
# The demo trainer: four ranks in every layout learn, learn the same again, go on after a stop as
# if nothing had happened, and say who is missing when one dies.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

LOCKSTEP_DIR=$TAP/rings
export LOCKSTEP_DIR
mkdir -m 700 "$LOCKSTEP_DIR"

# A port of our own below those that the kernel gives out, so that tests may run side by side.
PORT=$((20000 + $$ % 10000))

# train NAME WORLD ARG...: runs all ranks; what rank R prints is in $TAP/NAME.R, statuses in $TAP/NAME.status
train()
{
    train_name=$1 train_world=$2
    shift 2
    PORT=$((PORT + 1))
    train_rank=0 train_pids=
    while [ $train_rank -lt "$train_world" ]; do
        RANK=$train_rank WORLD_SIZE=$train_world LOCAL_RANK=$train_rank MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=$PORT LOCKSTEP_RESTART=${ATTEMPT:-0} timeout 60 "$LOCKSTEP" trainer \
            --step-ms 20 --host-work-ms 0.2 "$@" >"$TAP/$train_name.$train_rank" 2>&1 </dev/null &
        train_pids="$train_pids $!"
        train_rank=$((train_rank + 1))
    done
    train_statuses=
    for train_pid in $train_pids; do
        train_status=0
        wait "$train_pid" || train_status=$?
        train_statuses="$train_statuses$train_status "
    done
    echo "$train_statuses" >"$TAP/$train_name.status"
}

# The loss that rank 0 printed first, and last.
loss_falls()
{
    awk '/^step/ { if (first == "") first = $4; last = $4 } END { exit !(last < first / 4) }' "$1"
}

for layout in dp=4 tp=2,dp=2 pp=2,dp=2; do
    train "one" 4 --steps 40 --layout $layout
    has "$layout: all ranks end well" '^0 0 0 0 $' "$TAP/one.status"
    ok "$layout: the loss falls" loss_falls "$TAP/one.0"
    train "two" 4 --steps 40 --layout $layout
    ok "$layout: the same seed learns the same" test \
        "$(grep done "$TAP/one.0")" = "$(grep done "$TAP/two.0")"

    train "half" 4 --steps 25 --layout $layout --checkpoint-dir "$TAP/saved" --checkpoint-every 10
    ATTEMPT=1 train "rest" 4 --steps 40 --layout $layout --checkpoint-dir "$TAP/saved" \
        --checkpoint-every 10
    has "$layout: goes on from the last checkpoint" 'restored from checkpoint of step 20' "$TAP/rest.0"
    ok "$layout: and learns what it would have learnt without a stop" test \
        "$(grep done "$TAP/one.0")" = "$(grep done "$TAP/rest.0")"
    rm -r "$TAP/saved"
done

train "seed" 4 --steps 40 --seed 2
lacks "another seed learns something else" "$(sed -n 's/.*digest //p' "$TAP/one.0")" "$TAP/seed.0"

# A checkpoint of which one rank's file is damaged is passed over by all.
train "half" 4 --steps 25 --checkpoint-dir "$TAP/saved" --checkpoint-every 10
printf x | dd of="$TAP/saved/step-20/rank-00002.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
ATTEMPT=1 train "rest" 4 --steps 30 --checkpoint-dir "$TAP/saved" --checkpoint-every 10
has "a damaged file is named" 'rank 0: checkpoint skipped: step 20: .*rank-00002.safetensors' "$TAP/rest.0"
has "and all go back to the one before" 'restored from checkpoint of step 10' "$TAP/rest.0"
train "other" 4 --steps 30 --seed 2 --checkpoint-dir "$TAP/saved"
has "another run's checkpoints are not touched" 'written by another run: seed 1' "$TAP/other.0"
ok "they are still there" "$LOCKSTEP" ckpt verify --newest "$TAP/saved"
has "the newest of them" '^step 30  verified' "$TAP/out"
LOCKSTEP_RESUME=$TAP/saved/step-20
export LOCKSTEP_RESUME
ATTEMPT=1 train "chosen" 4 --steps 22 --checkpoint-dir "$TAP/saved"
has "the one that the launcher chose is taken" 'restored from checkpoint of step 20' "$TAP/chosen.0"
LOCKSTEP_RESUME=
train "fewer" 2 --steps 32 --checkpoint-dir "$TAP/saved"
has "fewer replicas go on from the newest as well" 'restored from checkpoint of step 30' "$TAP/fewer.0"
LOCKSTEP_RESUME=$TAP/saved/step-30
printf x | dd of="$TAP/saved/step-30/rank-00001.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
ATTEMPT=1 train "refused" 4 --steps 32 --checkpoint-dir "$TAP/saved"
has "if that cannot be restored, no rank begins elsewhere" '^1 1 1 1 $' "$TAP/refused.status"
unset LOCKSTEP_RESUME

printf 'lockstep-plan 1\ntruth %s\nfault kill:rank=2,step=10\n' "$TAP/truth" >"$TAP/plan"
begin=$(date +%s)
train "kill" 4 --steps 1000 --plan "$TAP/plan" --timeout 30s
end=$(date +%s)
has "a killed rank ends the others with status 1" '^1 1 137 1 $' "$TAP/kill.status"
has "a neighbour says whom it lost, and in what" \
    'rank [013]: lost rank 2 in all-reduce [0-9]+ of (dp0|world): ' \
    "$(grep -l 'lost rank 2' "$TAP"/kill.* | head -n 1)"
ok "at once, not when the wait is over" test $((end - begin)) -lt 20
has "the truth was written before it died" '^fault 0 rank 2 attempt 0 step 10 steps 1 ' \
    "$TAP/truth.rank-2.attempt-0"
ATTEMPT=1 train "again" 4 --steps 20 --plan "$TAP/plan"
has "the second attempt is not killed again" '^0 0 0 0 $' "$TAP/again.status"

printf 'lockstep-plan 1\ntruth %s\nfault gpu-slow:rank=1,factor=2,step=5,steps=10\n' "$TAP/slow" \
    >"$TAP/plan"
train "slow" 2 --steps 20 --plan "$TAP/plan"
has "a slow device is slow for its steps" '^fault 0 rank 1 attempt 0 step 5 steps 10 at [0-9]+ ns [1-9]' \
    "$TAP/slow.rank-1.attempt-0"
has "and no other one is" '^fault 0 rank 0 attempt 0 step 0 steps 0 at 0 ns 0 ' "$TAP/slow.rank-0.attempt-0"

touch "$TAP/stop"
train "stop" 2 --steps 1000 --stop-file "$TAP/stop"
has "a stop file ends all ranks at the same step" '^done after 1 steps' "$TAP/stop.0"

"$LOCKSTEP" trainer --steps 100000 >"$TAP/out" 2>"$TAP/err" &
pid=$!
await grep -q '^step' "$TAP/out"
kill -TERM $pid
exits 143 "SIGTERM ends it with 143" wait $pid

WORLD_SIZE=4
export WORLD_SIZE
RANK=4 exits 2 "refuses a rank that is none" "$LOCKSTEP" trainer
has "and says so" 'rank 4 of 4' "$TAP/err"
RANK=0 exits 2 "refuses a layout of another size" "$LOCKSTEP" trainer --layout tp=3,dp=2
has "with both numbers" 'tp=3,pp=1,dp=2 needs 6 ranks, there are 4' "$TAP/err"
RANK=0 exits 2 "refuses an unknown axis" "$LOCKSTEP" trainer --layout xp=4
RANK=0 exits 1 "says which ranks did not come" env MASTER_PORT=$((PORT + 1)) "$LOCKSTEP" trainer --timeout 200ms
has "by their numbers" 'rendezvous: 3 of 4 ranks did not connect within 0.2 s: 1 2 3' "$TAP/err"
echo "something else" >"$TAP/plan"
RANK=0 exits 1 "says which line of a plan is wrong" "$LOCKSTEP" trainer --plan "$TAP/plan"
has "by its number" 'line 1: not a fault plan' "$TAP/err"

done_testing
