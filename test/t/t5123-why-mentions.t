#!/bin/sh
# `lockstep why` on logs that mention errors, and on what a scheduler reports behind what a shell printed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# Slurm tells of memory last.
printf 'Killed\nslurmstepd: error: Detected 1 oom_kill event in StepId=4.0. Some of the step tasks have been OOM Killed.\nsrun: error: n7: task 3: Out Of Memory\n' >"$TAP/oom.log"
exits 1 "a shell's Killed before the scheduler's word" "$LOCKSTEP" why "$TAP/oom.log"
has "it lacked memory, and the task is named" '^crash: rank 3 .node n7.: killed for lack of memory' "$TAP/out"
printf 'srun: error: n7: task 3: Killed\nslurmstepd: error: Detected 1 oom_kill event in StepId=4.0. Some of the step tasks have been OOM Killed.\n' >"$TAP/task.log"
exits 1 "the only task that was killed" "$LOCKSTEP" why "$TAP/task.log"
has "is the one that lacked memory" '^crash: rank 3 .node n7.: killed for lack of memory' "$TAP/out"
printf 'job.sh: line 29: 2976 Killed                  python train.py\nslurmstepd: error: *** JOB 25 ON n7 CANCELLED AT 2023-05-30T19:46:40 ***\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=25.batch. Some of your processes may have been killed by the cgroup out-of-memory handler.\n' >"$TAP/cancelled.log"
exits 1 "cancelled, and memory ran out" "$LOCKSTEP" why "$TAP/cancelled.log"
has "memory comes first" '^crash: killed for lack of memory' "$TAP/out"

# A time limit is the job's, whoever prints it.
printf '1: slurmstepd: error: *** STEP 9.0 ON n7 CANCELLED AT 2023-05-30T19:46:40 DUE TO TIME LIMIT ***\n' >"$TAP/limit.log"
exits 1 "a time limit" "$LOCKSTEP" why "$TAP/limit.log"
has "names no rank" '^ended from outside: the job reached its time limit' "$TAP/out"

# Errors of one log that another one explains.
mkdir "$TAP/job"
cat >"$TAP/job/node0.log" <<'END'
2026-11-17 10:00:02 ERROR ConnectionError: object store did not answer
2026-11-17 10:00:03 INFO step 101 loss 2.3
2026-11-17 10:00:04 INFO step 102 loss 2.3
2026-11-17 10:00:05 INFO step 103 loss 2.3
2026-11-17 10:00:06 INFO step 104 loss 2.3
2026-11-17 10:00:07 INFO step 105 loss 2.3
END
cat >"$TAP/job/node1.log" <<'END'
2026-11-17 10:20:02 Traceback (most recent call last):
  File "train.py", line 12, in step
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
2026-11-17 10:20:09 ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 811) of binary: python
END
exits 1 "a retried error, and the log of another node that explains the failure" "$LOCKSTEP" why "$TAP/job"
lacks "the retried one is no cause" 'object store did not answer' "$TAP/out"
has "the other is" '^crash: .*GPU memory is exhausted' "$TAP/out"

# NCCL goes on after a warning.
cat >"$TAP/nccl.log" <<'END'
n1:6801:6839 [1] ras/client_support.cc:159 NCCL WARN Call to bind failed: Address already in use
n1:6801:6839 [1] NCCL INFO RAS failed to establish a client listening socket at localhost:28028
n1:6801:6839 [1] NCCL INFO Setting affinity for GPU 1 to 22-31,48-63
END
exits 3 "a warning of NCCL whose process goes on" "$LOCKSTEP" why "$TAP/nccl.log"
sed 's/NCCL INFO .*/NCCL INFO init.cc:1079 -> 2/' "$TAP/nccl.log" >"$TAP/failed.log"
exits 1 "one whose callers return its error" "$LOCKSTEP" why "$TAP/failed.log"

# What the program went on behind is quoted, and no verdict.
printf 'loading\nERROR could not reach the license server\nstarting the worker pool\nreading 12 shards\nwarming the cache\n' >"$TAP/went-on.log"
exits 3 "work behind an error that nobody knows" "$LOCKSTEP" why "$TAP/went-on.log"
has "the line is quoted" 'went-on.log:2: .*could not reach the license server' "$TAP/out"
exits 3 "as JSON" "$LOCKSTEP" why --json "$TAP/went-on.log"
has "it is a member of its own" '"mention": *{' "$TAP/out"
printf 'loading\nERROR could not reach \033]0;title\007 the server\nstarting the pool\nreading 12 shards\nwarming the cache\n' >"$TAP/escape.log"
exits 3 "a line with an escape sequence" "$LOCKSTEP" why "$TAP/escape.log"
has "is quoted" 'escape.log:2: .*could not reach' "$TAP/out"
lacks "without it" "$(printf '\033')" "$TAP/out"
head -2 "$TAP/went-on.log" >"$TAP/ended.log"
exits 1 "the same line at the end of a log" "$LOCKSTEP" why "$TAP/ended.log"
done_testing
