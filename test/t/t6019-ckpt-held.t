#!/bin/sh
# A trainer that dies leaves its last image in the memory of its writer for a while (LOCKSTEP_ARENA_HOLD): the next start restores from
# there, only what is right, and then the memory is given back.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
dir=$TAP/ckpt
record=$dir/.held-rank-00000
LOCKSTEP_ARENA_HOLD=600
export LOCKSTEP_ARENA_HOLD

last() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$TAP/log" | tail -n 1; }
gone() { ! kill -0 "$1" 2>/dev/null; }
verified() { [ "$(last verified)" ] && [ "$(last verified)" -ge 3 ]; }
all_gone() { for pid in $held; do gone "$pid" || return 1; done; }
held=

dies() # OPTION...: a trainer that is killed after some verified saves; its writer is $writer
{
    : >"$TAP/log"
    "$train" "$dir" steps=1000000 mb=8 keep=2 wait=verified pause=5 "$@" >"$TAP/log" 2>"$TAP/err" &
    trainer=$!
    await verified || echo "# no verified saves: $(cat "$TAP/err")"
    kill -9 $trainer
    wait $trainer 2>/dev/null
    writer=$(last writer)
    held="$held $writer"
}

dies
await test -s "$record"
tap_result $? "the writer of a trainer that was killed keeps its last image"
"$LOCKSTEP" ckpt ls --json "$dir" >"$TAP/points"
newest=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["points"][0]["step"])' "$TAP/points")
cp -r "$dir/step-$newest" "$TAP/sound"
# What is on the disk is damaged now: only memory has the point.
python3 - "$dir/step-$newest/rank-00000.safetensors" <<'PYTHON'
import os, sys
with open(sys.argv[1], "r+b") as file:
    file.seek(os.path.getsize(sys.argv[1]) // 2)
    file.write(b"\xa5" * 4096)
PYTHON
ok "the next start restores it from there" "$train" "$dir" mb=8 restore=only
has "byte for byte" "^restored $newest\$" "$TAP/out"
has "and says so" '^memory [1-9]' "$TAP/out"
ok "it can do so again" "$train" "$dir" mb=8 restore=only

cp "$record" "$TAP/record"
printf 'x' | dd of="$record" bs=1 seek=40 conv=notrunc 2>/dev/null
await gone "$writer"
tap_result $? "a writer whose record was changed gives its memory back"
cp "$TAP/record" "$record" # of a process that is gone
ok "and a record of no living process is passed over" "$train" "$dir" mb=8 restore=only
lacks "nothing comes from memory" '^memory' "$TAP/out"
lacks "nor is the damaged point taken" "^restored $newest\$" "$TAP/out"
rm -rf "$dir/step-$newest" "$record"
cp -r "$TAP/sound" "$dir/step-$newest"

dies
ok "its image is held" await test -s "$record"
ok "a start that saves" "$train" "$dir" mb=8 steps=$((newest + 5)) wait=written
has "restores from memory first" '^memory [1-9]' "$TAP/out"
ok "then the memory is given back" await gone "$writer"
ok "with its record" [ ! -e "$record" ]
await all_gone
tap_result $? "and a program that closes its engine leaves nothing"

dies
ok "its image is held" await test -s "$record"
kill "$writer"
ok "SIGTERM ends it" await gone "$writer"
ok "with its record, too" [ ! -e "$record" ]
# At the end of the run the launcher sends SIGTERM once, to whoever has that name.
LOCKSTEP_RUN=r1 LD_PRELOAD=$BUILD/test/libckpt-fault.so CKPT_FAULT=term
export LOCKSTEP_RUN LD_PRELOAD CKPT_FAULT
dies
unset LOCKSTEP_RUN LD_PRELOAD CKPT_FAULT
ok "one that comes as soon as it can be meant is not lost" await gone "$writer"

# The rank goes on elsewhere, with the same directory: another machine, as far as process numbers tell.
if unshare -p -f --mount-proc true 2>/dev/null; then
    dies
    ok "its image is held" await test -s "$record"
    ok "a start on another machine" unshare -p -f --mount-proc "$train" "$dir" mb=8 steps=$(($(last verified) + 5)) wait=written
    lacks "finds nothing in memory" '^memory' "$TAP/out"
    ok "the memory here is given back" await gone "$writer"
else
    skip "a start on another machine" "no process namespaces here"
fi
# A rank that the next start has not got: later points are verified without it.  restore=none: there is no rank 0 to agree with.
first=$dir
dir=$TAP/fewer
dies rank=1 world=2 group=1 job=7 restore=none
ok "a rank of two is held, too" await test -s "$dir/.held-rank-00001"
ok "a start without this rank" "$train" "$dir" mb=8 steps=$(($(last verified) + 5)) wait=verified restore=none
ok "gives its memory back, too" await gone "$writer"
dir=$first
LOCKSTEP_ARENA_HOLD=1
dies
ok "so does time" await gone "$writer"
ok "and the record goes" [ ! -e "$record" ]
LOCKSTEP_ARENA_HOLD=
dies
ok "without the setting nothing is kept" await gone "$writer"
ok "and there is no record" [ ! -e "$record" ]
done_testing
