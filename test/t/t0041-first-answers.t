#!/bin/sh
# What a new user reads first: the answer about a file, on a narrow terminal; a file name with a typing error; the advice.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

cd "$TAP" || exit 1
exits 2 "a file that is not there" "$LOCKSTEP" why slurm-4712.out
has "is named as a file first" 'slurm-4712\.out: no such file, and no such run' "$TAP/err"

echo "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." >oom.log
echo "[Tue Nov 10 01:00:00 2026] NVRM: Xid (PCI:0000:5d:00): 13, pid=311, name=python, Graphics SM Warp Exception" >kernel.txt
exits 1 "an answer about a file" "$LOCKSTEP" why oom.log
tr '\n' ' ' <out >flat
has "separates layer, confidence and id" '\(layer gpu-memory, +confidence 0\.[0-9]*, +id cr-[0-9a-f]+\)' flat
has "on files lines have 100 columns at most" '^.{81,100}$' out
exits 1 "an Xid that programs cause" "$LOCKSTEP" why kernel.txt
tr '\n' ' ' <out >flat
has "asks to look at the program" 'Look for +the +error +in +the +program' flat
lacks "and not to drain the node" 'Drain' flat

if command -v script >/dev/null; then
    script -qec "stty cols 64; '$LOCKSTEP' why oom.log" /dev/null </dev/null | tr -d '\r' | sed 's/\x1b\[[0-9;]*m//g' >narrow
    has "a terminal gets the answer" '^crash: rank 2: GPU memory is exhausted' narrow
    lacks "in lines of its width" '^.{65,}$' narrow
else
    skip "a terminal gets the answer" "no script(1) here"
fi

exits 2 "a request without its option" "$LOCKSTEP" request depth some-run
has "names the option" 'expected --depth all, steps or none' err
exits 3 "the cases of dead jobs outside of the source tree" "$LOCKSTEP" bench autopsy --size 0
has "are missing, and the answer says where they are" 'run this in the source tree' err
mkdir empty
exits 0 "a list of no checkpoints" "$LOCKSTEP" ckpt ls empty
has "is not silent" 'empty: no checkpoints of lockstep' err
exits 3 "a directory without a checkpoint" "$LOCKSTEP" ckpt verify empty
has "has no committed checkpoint" 'no committed .*checkpoint in this directory' err
"$LOCKSTEP" doctor >out 2>err
lacks "doctor does not deny what the sensors read" 'does not read it yet' out
done_testing
