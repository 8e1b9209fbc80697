#!/bin/sh
# A request in a rank's ring: the trainer writes a checkpoint at the end of the step that it names, and answers.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

mkdir -m 700 "$TAP/rings"
LOCKSTEP_DIR=$TAP/rings RANK=0 WORLD_SIZE=1
export LOCKSTEP_DIR RANK WORLD_SIZE
ring=$TAP/rings/rank-0.0.ring

# The request of the golden file: id 7, a checkpoint at the end of step 50.
request()
{
    dd if="$SOURCE/test/golden/ring-v2.bin" of="$ring" bs=64 skip=5 seek=5 count=1 conv=notrunc 2>/dev/null
}

answer()
{
    od -An -t u8 -j 832 -N 32 "$ring" | tr -s ' \n' ' '
}

past() # STEP: has the rank begun a later one?
{
    [ "$(od -An -t d8 -j 256 -N 8 "$ring" | tr -d ' ')" -gt "$1" ]
}

# Trains; the request is written once the rank is past that step (-1: before the first).
train() # NAME STEPS AFTER OPTION...
{
    name=$1 steps=$2 after=$3
    shift 3
    rm -rf "$ring" "$TAP/saved"
    "$LOCKSTEP" trainer --steps "$steps" "$@" >"$TAP/out" 2>"$TAP/err" &
    await past "$after"
    request
    wait $!
    tap_result $? "$name"
}

train "a rank trains with a request in its ring" 60 -1 --step-ms 50 --checkpoint-dir "$TAP/saved" --checkpoint-every 1000
is "which it has done at that step" "$(answer)" " 2 7 50 1 "
is "there is a checkpoint of 51 steps, and no other" "$(ls "$TAP/saved")" step-51
train "a rank that is past that step trains" 150 51 --step-ms 20 --checkpoint-dir "$TAP/saved" --checkpoint-every 1000
is "and says so" "$(answer | cut -d ' ' -f 3,5)" "7 2"
is "and writes no checkpoint" "$(ls "$TAP/saved" 2>/dev/null)" ""
train "a rank that can write no checkpoint trains, too" 60 -1 --step-ms 50
is "and refuses" "$(answer | cut -d ' ' -f 3,5)" "7 3"
done_testing
