#!/bin/sh
# Checkpoints of tensors on a GPU: a driver by script, whose copies happen when their time has come.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
program=$BUILD/test/ckpt-gpu
export LD_LIBRARY_PATH="$BUILD/src/device${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LOCKSTEP_FAKE_DEVICE="$TAP/script"
[ -e "$BUILD/src/device/libcuda.so.1" ] || skip_all "no scripted driver in $BUILD"

device() { printf '%s\n' "$@" >"$TAP/script"; } # RULE...

device
ok "a program saves tensors of a GPU" "$program" "$TAP/plain" prepare set=7 begin=1 fence wait
lacks "without an error" ': ' "$TAP/out"
ok "and the next one restores them" "$program" "$TAP/plain" restore show
has "into the GPU and into main memory" '^weight 7 buffer 7 host 7 $' "$TAP/out"
ok "verify finds the files right" "$LOCKSTEP" ckpt verify "$TAP/plain"

# The stream of the program is still busy: 200 ms for each of what it has launched.
device 'cuda.copy-us value 200000'
ok "a save begins before the GPU has computed the tensors" "$program" "$TAP/order" set=5 begin=1 fence wait
device
ok "the copy" "$program" "$TAP/order" restore show
has "has what was launched before the save" '^weight 5 buffer 5 host 5 $' "$TAP/out"

device 'cuda.copy-us value 100000'
ok "a buffer changes after begin, everything after the fence" \
    "$program" "$TAP/fence" set=5 sync begin=1 late fence set=6 sync wait
device
ok "the copy" "$program" "$TAP/fence" restore show
has "has neither" '^weight 5 buffer 5 host 5 $' "$TAP/out"
device 'cuda.copy-us value 100000'
ok "the training goes on while a restore begins" "$program" "$TAP/fence" set=3 restore show
has "and does not overwrite it" '^weight 5 buffer 5 host 5 $' "$TAP/out"

device 'cuda.host-register delay 1s'
ok "memory is registered in the background" "$program" "$TAP/pin" prepare begin=1 fence wait status
has "and used so" '^device pinned$' "$TAP/out"
has "a save that comes earlier waits, and that is counted" '^waited yes$' "$TAP/out"
device 'cuda.host-register error 2'
ok "memory that cannot be registered" "$program" "$TAP/unpinned" set=4 begin=1 fence wait status restore show
has "is used all the same, with the reason" \
    '^device not pinned, because cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY \(2\): out of memory$' "$TAP/out"
has "and rightly" '^weight 4 buffer 4 host 4 $' "$TAP/out"

# Errors: the save is given up with the reason, the program goes on.
device 'cuda.copy error 700 times 1'
ok "a copy that the driver refuses" "$program" "$TAP/refused" begin=1 fence begin=2 fence wait status
has "names the tensor" '^begin=1: tensor (weight|buffer): cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS' "$TAP/out"
has "is skipped, and the next one works" '^saved 1 skipped 1 failed 0 cancelled 0$' "$TAP/out"
is "as its only point" "$(ls "$TAP/refused")" step-2
device 'cuda.stream-wait error 700 times 1'
ok "a copy that fails later" "$program" "$TAP/late" begin=1 fence begin=2 fence wait status
has "fails at the fence" '^fence: GPU 0: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS' "$TAP/out"
has "and is counted" '^saved 1 skipped 0 failed 1 cancelled 0$' "$TAP/out"
is "its image is never written" "$(ls "$TAP/late")" step-2
device 'cuda.copy-us value 100000'
ok "a save that is cancelled during the copy" "$program" "$TAP/cancel" begin=1 cancel begin=2 fence wait status
has "leaves the memory to the next one" '^saved 1 skipped 0 failed 0 cancelled 1$' "$TAP/out"
device 'cuda.context-retain error 100'
exits 77 "a machine whose driver finds no GPU" "$program" "$TAP/none" begin=1
device 'cuda.stream-create error 2 after 1'
exits 3 "a GPU without memory for a stream" "$program" "$TAP/none" begin=1
has "names the tensor and the call" \
    '^not registered: tensor weight: cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY \(2\): out of memory$' "$TAP/out"
# Two replicas, each with the slice of the other as well.
pair() # DIR VALUE0 VALUE1
{
    for rank in 0 1; do
        [ $rank = 0 ] && value=$2 || value=$3
        "$program" "$1" pair=$rank set="$value" begin=1 fence set=9 sync verify >"$TAP/out$rank" 2>&1 &
    done
    wait
    cat "$TAP/out0" "$TAP/out1"
}
device 'cuda.copy-us value 100000'
ok "two GPUs with equal tensors" pair "$TAP/same" 4 4
lacks "save them" 'differ|: ' "$TAP/out"
ok "and each byte is right" "$LOCKSTEP" ckpt verify "$TAP/same"
is "and there once" "$(tail -c 4718592 "$TAP/same/step-1/rank-00001.safetensors" | tr -d '\004' | wc -c)" 0
pair "$TAP/odd" 4 5 >"$TAP/out"
has "two with different ones do not" '^verify: step 1: replicas differ: tensor (weight|buffer|host) of rank [01] and rank [01], .*, and 2 tensors more' "$TAP/out"
exits 1 "and leave no point" "$LOCKSTEP" ckpt verify "$TAP/odd"
done_testing
