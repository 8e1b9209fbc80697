#!/bin/sh
# `lockstep why` on logs of jobs that went on after an error, on causes that cannot be compared, and what it advises.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

cat >"$TAP/caught.log" <<'END'
2026-11-17 10:00:01 INFO step 100 loss 2.31
2026-11-17 10:00:02 ERROR torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
2026-11-17 10:00:09 INFO step 200 loss 2.21
END
cp "$TAP/caught.log" "$TAP/complete.log"
echo "2026-11-17 10:09:12 INFO Training completed successfully." >>"$TAP/complete.log"
exits 3 "an error before the training was complete is no cause" "$LOCKSTEP" why "$TAP/complete.log"
has "and the answer is open" '^cannot tell' "$TAP/out"
exits 3 "nor is one behind which steps are counted to the end" "$LOCKSTEP" why "$TAP/caught.log"
has "which is mentioned" 'caught.log:2: torch.cuda.OutOfMemoryError' "$TAP/out"
sed '$d' "$TAP/caught.log" >"$TAP/died.log"
exits 1 "without a step behind it it is the cause" "$LOCKSTEP" why "$TAP/died.log"
has "of a crash" '^crash: GPU memory is exhausted' "$TAP/out"

cp "$TAP/complete.log" "$TAP/later.log"
echo "2026-11-17 10:09:14 ERROR Segmentation fault (core dumped)" >>"$TAP/later.log"
exits 1 "an error after it counts" "$LOCKSTEP" why "$TAP/later.log"
cp "$TAP/complete.log" "$TAP/exit.log"
echo "srun: error: gpu-0012: task 0: Exited with exit code 1" >>"$TAP/exit.log"
exits 1 "so does a launcher that reports a failure" "$LOCKSTEP" why "$TAP/exit.log"
sed 's/Training completed successfully/Training finished with failures/' "$TAP/complete.log" >"$TAP/bad.log"
exits 1 "a message about a bad end is no success" "$LOCKSTEP" why "$TAP/bad.log"

mkdir "$TAP/ranks"
for rank in 0 1 2 3; do
    printf 'step 1\nstep 2\nTraining finished\n' >"$TAP/ranks/rank$rank.log"
done
printf 'step 1\nretry: ConnectionResetError: [Errno 104] Connection reset by peer\nTraining finished\n' >"$TAP/ranks/rank1.log"
exits 3 "a lost connection that one rank survived names no other rank" "$LOCKSTEP" why "$TAP/ranks"

cat >"$TAP/dmesg.txt" <<'END'
[1209012.002219] NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
END
cat >"$TAP/oom.log" <<'END'
[rank2]: Traceback (most recent call last):
[rank2]:   File "train.py", line 12, in step
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited or there was a network error
END
exits 1 "two causes without dates" "$LOCKSTEP" why --json "$TAP/dmesg.txt" "$TAP/oom.log"
tr -d '\n' <"$TAP/out" >"$TAP/flat"
lacks "neither follows from the other" '"echoes": \[[^]]*GPU memory is exhausted' "$TAP/flat"
has "what is an effect still does" '"echoes": \[[^]]*a peer is gone' "$TAP/flat"

printf 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nKeyError: 1\n' >"$TAP/user.log"
exits 1 "an exception of the program" "$LOCKSTEP" why --json "$TAP/user.log"
lacks "gives no advice about files of a run of lockstep" 'rank-N\.log' "$TAP/out"
printf 'srun: error: Node failure on gpu-0044\nslurmstepd: error: *** JOB 777 ON gpu-0040 CANCELLED AT 2026-11-17T03:00:00 DUE TO NODE FAILURE ***\n' >"$TAP/node.log"
exits 1 "a node that failed" "$LOCKSTEP" why "$TAP/node.log"
has "is named, and not the first node of the job" '^ended from outside: node gpu-0044: a node of the job failed' "$TAP/out"
done_testing
