#!/bin/sh
# Answers from the files of a dead job: where the fault was, who is behind, and what to do fit what the files say.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

verdict() # NAME: a field of the only verdict in $TAP/out, without blanks
{
    python3 -c '
import json, sys
verdicts = json.load(open(sys.argv[1]))["verdicts"]
print(json.dumps(verdicts[0][sys.argv[2]]) if len(verdicts) == 1 else "%d verdicts" % len(verdicts))
' "$TAP/out" "$1" | tr -d ' '
}

verdicts() # the ranks of all verdicts in $TAP/out, in their order
{
    python3 -c 'import json, sys; print([one["ranks"] for one in json.load(open(sys.argv[1]))["verdicts"]])' "$TAP/out"
}

why() # NAME FILE...: both as JSON, in $TAP/out, and as text on one line, in $TAP/text
{
    name=$1
    shift
    "$LOCKSTEP" why "$@" 2>&1 | tr -s ' \n' '  ' >"$TAP/text"
    exits 1 "$name" "$LOCKSTEP" why --json "$@"
}

cd "$TAP" || exit 1

# The node that the launcher or the kernel's log names.
cat >train.log <<'END'
2026-11-18 10:11:50,123 INFO step 550 loss 2.1
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/u/train.py", line 88, in <module>
[rank3]:     loss.backward()
[rank3]: torch.AcceleratorError: CUDA error: unspecified launch failure
Root Cause (first observed failure):
[0]:
  time      : 2026-11-18_10:12:04
  host      : gpu07
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 4103)
END
xid="NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
echo "[Wed Nov 18 10:12:01 2026] $xid" >dmesg.txt
why "a launcher's report alone" train.log
is "names the node of the rank" "$(verdict nodes)" '["gpu07"]'
why "a launcher's report and a kernel's log that does not name its node" train.log dmesg.txt
is "name the node" "$(verdict nodes)" '["gpu07"]'
is "and the only rank whose GPU failed" "$(verdict ranks)" '[3]'
for prefix in 'Nov 18 10:12:01 gpu07 kernel:' '2026-11-18T10:12:01+0000 gpu07 kernel:' \
    'Nov 18 10:12:01.123456 gpu07 kernel: [12345.678]'; do
    echo "$prefix $xid" >kern.log
    why "a kernel's log with '$prefix'" kern.log
    is "names its node" "$(verdict nodes)" '["gpu07"]'
done
sed 's/rank3/rank4/; s/host .*/host : gpu08/; s/ 3 (local/ 4 (local/' train.log >other.log
why "two ranks whose GPUs failed, and an Xid that nobody can tell whose it is" train.log other.log dmesg.txt
is "name no node" "$(verdict nodes)" '[]'

# The rank that is behind, though it names another op: the numbers are those of one group.
timeouts() # DIRECTORY TEXT: rank 2 waits in 550, the others in 551; the text, with %N for the number, follows
{
    mkdir "$1"
    for rank in 0 1 2; do
        number=551 op=ALLREDUCE
        [ $rank = 2 ] && number=550 op=_ALLGATHER_BASE
        head="[rank$rank]:[E1118 10:12:0$rank.123456 ProcessGroupNCCL.cpp:629] [PG ID 0 PG GUID 0(default_pg) Rank $rank]"
        echo "$head Watchdog caught collective operation timeout: WorkNCCL(SeqNum=$number, OpType=$op, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600023 milliseconds before timing out."
        [ -z "$2" ] || echo "$head $2" | sed "s/%N/$number/g"
    done >"$1/train.log"
}
timeouts behind ''
why "a rank that times out one collective before the others" behind
is "is named" "$(verdict ranks)" '[2]'
lacks "and its own timeout did not follow from it" 'What followed from it:.*number 550' text
timeouts enqueued 'Timeout at NCCL work: %N, last enqueued NCCL work: %N, last completed NCCL work: 549.'
why "the same, with the last enqueued work" enqueued
is "is named, too" "$(verdict ranks)" '[2]'
has "in plain words" 'rank 2 last enqueued collective 550; others wait in collective 551' text
lacks "and the evidence is listed once" 'What followed from it:.*(number 550|train.log:[56])' text

# What the driver asks for decides what to do, whatever else was given.
recovery='NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)'
echo "Nov 18 10:12:01 gpu07 kernel: $xid
Nov 18 10:12:02 gpu07 kernel: $recovery" >kern.log
printf '[12345.678901] %s\n[12346.678901] %s\n' "$xid" "$recovery" >undated.txt
for files in kern.log 'train.log kern.log' 'train.log undated.txt' undated.txt; do
    # shellcheck disable=SC2086
    why "Xid 154 in $files" $files
    has "is evidence" '"NVRM: Xid [^"]*154, GPU recovery action changed' text
    has "and the node is to be rebooted" 'To do: Drain the node and reboot it, as the driver asks' text
done

# Jobs that somebody else ended.
cat >cancelled.log <<'END'
step 10 loss 2.0
/var/spool/slurmd/job4711/slurm_script: line 12: 2324 Killed                  python train.py
slurmstepd: error: *** JOB 4711 ON n7 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT ***
srun: error: n7: task 3: Killed
END
why "a time limit, with what was killed written before and behind it" cancelled.log
has "is the heading" '^ended from outside: the job reached its time limit\.' "$TAP/text"
lacks "and nobody lacked memory" 'lack of memory' "$TAP/text"

# Which memory was used up.
oom='oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=python3,pid=77,uid=5'
echo "[Wed Nov 18 10:12:01 2026] $oom" >oom.txt
why "a node without memory" oom.txt
has "has other advice" 'a memory limit of the job would not have helped' "$TAP/text"
echo "[Wed Nov 18 10:12:01 2026] $oom" | sed 's/NONE/MEMCG/' >oom.txt
why "than a cgroup without memory" oom.txt
has "whose limit is to be raised" 'Raise the memory limit of the job' "$TAP/text"
is "a line with a date is sure" "$(verdict confidence)" 0.8
echo "[ 1843.30] $oom" >oom.txt
why "a line without a date" oom.txt
is "is not: it may be older than the job" "$(verdict confidence)" 0.55
printf 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n' >stack.log
why "a segmentation fault with its stack" stack.log
has "needs no other run to get one" 'Read the stack that the log shows' "$TAP/text"

# Two jobs in one folder: each has its own cause, and what followed from it.
mkdir jobs
cat >jobs/a.log <<'END'
2026-11-18 10:00:00,000 INFO step 5 loss 2.1
2026-11-18 10:00:10,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
END
cat >jobs/b.log <<'END'
2026-11-18 10:20:00,000 ERROR OSError: [Errno 28] No space left on device
2026-11-18 10:20:05,000 ERROR torch.distributed.DistBackendError: NCCL error: Connection closed by remote peer n3<4711>
END
cat >jobs/c.log <<'END'
2026-11-18 23:20:05,000 ERROR torch.distributed.DistBackendError: NCCL error: Connection closed by remote peer n4<4712>
END
"$LOCKSTEP" why --json jobs >"$TAP/out" 2>&1
is "lines of one job follow from no error of another" "$(python3 -c '
import json, sys
for one in json.load(open(sys.argv[1]))["verdicts"]:
    print(one["layer"], sorted(line["file"] for line in one["echoes"]))' "$TAP/out" | sort | tr '\n' ' ')" \
    "gpu-memory [] storage ['b.log'] "
cp jobs/b.log again.log
sed 's/10:20/10:29/' jobs/b.log >again-2.log
why "the same error of two attempts" again.log again-2.log
is "is one verdict" "$(verdict layer)" '"storage"'

# What the scheduler and the kernel report of one process, or the program and the driver of one GPU, is one fault.
mkdir memory
cat >memory/slurm-4711.out <<'END'
12: 2026-11-17 10:00:29 INFO step 29 loss 2.1
slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.
srun: error: node08: task 12: Out Of Memory
slurmstepd: error: *** STEP 4711.0 ON node07 CANCELLED AT 2026-11-17T10:00:31 ***
END
echo "[Tue Nov 17 10:00:30 2026] $oom" | sed 's/NONE/MEMCG/' >memory/dmesg-node08.txt
why "the scheduler's and the kernel's report of a process that lacked memory" memory
is "are one verdict, which names the rank" "$(verdicts)" '[[12]]'
has "and has the kernel's line and its advice" 'Other jobs of the node are not the reason' text
mkdir ecc
echo '[rank5]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered' >ecc/train.log
for rank in 0 1 2 3 4 6 7; do
    echo "[rank$rank]:[E1117 10:30:01.123456789 ProcessGroupNCCL.cpp:633] [PG ID 0 PG GUID 0(default_pg) Rank $rank] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4211, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
done >>ecc/train.log
echo 'Nov 17 10:20:01 node03 kernel: NVRM: Xid (PCI:0000:9a:00): 94, pid=5555, name=python, Contained: SM (0x1). RST: No, D-RST: No' >ecc/kern.log
why "the error of a rank's GPU, and the Xid ten minutes before the others timed out" ecc
is "are one verdict, with the rank" "$(verdicts)" '[[5]]'
has "and the others' timeout follows from it" 'What followed from it: a collective timed out.*7 ranks' text
sed 's/10:20:01/08:10:01/' ecc/kern.log >ecc/old.log && rm ecc/kern.log
why "an Xid two hours before" ecc
is "is another fault" "$(verdicts)" '[[5], []]'
cat >killed.log <<'END'
Fatal Python error: Segmentation fault

Current thread 0x00007f1234567890 (most recent call first):
  File "/opt/app/dataset.py", line 88 in __getitem__
srun: error: node07: task 3: Segmentation fault (core dumped)
END
why "a signal without a rank, and the only task that ended by it" killed.log
is "is that rank's" "$(verdict ranks)" '[3]'
echo 'srun: error: node07: task 4: Segmentation fault (core dumped)' >>killed.log
why "two tasks that ended by it" killed.log
is "leave it open" "$(verdict ranks)" '[]'
mkdir ports
cat >ports/train.log <<'END'
n3:11:22 [4] NCCL WARN NET/IB : mlx5_2:1 Got async event : port error
n3:11:22 [4] NCCL WARN NET/IB : Got completion from peer 10.1.0.4<4444> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:10.1.0.3 remoteGids::ffff:10.1.0.4 hca mlx5_2
END
echo '[1234.5] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged' >ports/dmesg
why "what NCCL and the kernel report of one adapter" ports
is "is one verdict" "$(verdicts)" '[[]]'

# What a service puts in front of each line.
sed 's/^/[2022-06-09T09:22:31.405192Z] 8de2ca81 || /' >served.log <<'END'
Root Cause (first observed failure):
[0]:
  time      : 2022-06-09_09:22:31
  host      : 5e4bef3a2da3
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 36)
END
why "a launcher's table behind the number of a container" served.log
is "is read" "$(verdict ranks)" '[2]'
echo 'Job exceeded its walltime limit. Job was aborted' >wall.log
why "a time limit in the words of another scheduler" wall.log
has "is one" '^ended from outside: the job reached its time limit' text

# Local ranks of several nodes are no ranks of the job.
mkdir local
printf '[default0]:step 1\n[default1]:step 1\n' >local/node0.log
printf '[default0]:step 1\n[default2]:RuntimeError: CUDA error: an illegal memory access was encountered\n' >local/node1.log
why "a local rank of one of two nodes" local
is "is not taken for a rank" "$(verdict ranks)" '[]'
rm local/node0.log
why "of the only node" local
is "it is one" "$(verdict ranks)" '[2]'

# Jobs of other days, and jobs in folders of their own.
mkdir days one two
echo '2026-11-17 09:00:01 [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB' >days/1.log
echo '2026-11-17 12:31:00 [rank5]: ValueError: bad batch' >days/2.log
why "a weaker error hours later" days
is "has a verdict of its own, behind the surer one" "$(verdicts)" '[[3], [5]]'
sed 's/12:31/09:31/' days/2.log >days/3.log && rm days/2.log
why "half an hour later it may follow" days
is "and has none" "$(verdicts)" '[[3]]'
echo '[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB' >one/a.log
printf '%s\n' '2026-11-17 10:00:00 [rank6]: OSError: [Errno 122] Disk quota exceeded' \
    '2026-11-17 10:00:05 [rank1]: torch.distributed.DistBackendError: NCCL error: Connection closed by remote peer n3<4711>' >two/b.log
sed 's/^.*rank1/[rank0/; /Disk/d' two/b.log >>one/a.log
why "jobs of the same time in two folders" one two
is "have their own follow-on errors" "$(python3 -c '
import json, sys
for one in json.load(open(sys.argv[1]))["verdicts"]:
    print(one["layer"], sorted(line["file"] for line in one["echoes"]))' "$TAP/out" | sort | tr '\n' ' ')" \
    "gpu-memory ['one/a.log'] storage ['two/b.log'] "

# Files that nobody can read.
mkdir unread
head -c 600 /dev/zero | tr '\0' '\001' >unread/core
exits 3 "a folder without anything that can be read" "$LOCKSTEP" why unread
has "says so" 'none of 1 file could be read' "$TAP/out"
echo 'step 1' >unread/a.log
exits 3 "a folder with a log that shows nothing" "$LOCKSTEP" why unread
has "does not" 'these files do not show a cause' "$TAP/out"
has "but counts the others" '1 of 2 files could not be read' "$TAP/out"
done_testing
