#!/bin/sh
# File systems without hard links, or without an exclusive rename, hold checkpoints as well.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
nm -D "$BUILD/liblockstep-ckpt.so" | grep -Eq '__(asan|tsan)' && skip_all "a sanitizer must be loaded first"
LD_PRELOAD=$BUILD/test/libckpt-fault.so CKPT_FAULT=nolink,noreplace
export CKPT_FAULT

alone() { LD_PRELOAD=$LD_PRELOAD "$train" "$TAP/one" mb=2 restore=none wait=verified "$@"; }
ok "one rank saves" alone steps=2
is "both steps" "$(grep -c '^verified' "$TAP/out")" 2
ok "a start that saves the same steps again" alone steps=3
is "replaces them" "$(grep -c '^verified' "$TAP/out")" 3
ok "and the points are right" "$LOCKSTEP" ckpt verify "$TAP/one"
is "three of them" "$(grep -c verified "$TAP/out")" 3
mkdir "$TAP/one/step-4"
echo keep >"$TAP/one/step-4/file"
ok "a directory of another program" alone steps=4
has "is not replaced" '^failed 4: .*step-4 is the directory of another program' "$TAP/out"
is "and not touched" "$(cat "$TAP/one/step-4/file")" keep

for rank in 0 1 2; do
    LD_PRELOAD=$LD_PRELOAD "$train" "$TAP/many" rank=$rank world=3 job=4 steps=4 mb=1 restore=none wait=verified >"$TAP/out$rank" 2>"$TAP/err$rank" &
done
wait
is "three ranks commit together" "$(cat "$TAP/out0" "$TAP/out1" "$TAP/out2" | grep -c '^verified')" 12
ok "and right" "$LOCKSTEP" ckpt verify "$TAP/many"
is "each point once" "$(ls -A "$TAP/many" | tr '\n' ' ')" 'step-1 step-2 step-3 step-4 '
done_testing
