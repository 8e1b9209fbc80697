#!/bin/sh
# Logs of dead jobs: who went first, of what; everyone else's error is an echo.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

lost='Traceback (most recent call last):
  File "train.py", line 7, in <module>
    dist.all_reduce(x)
RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:38784'
waited='Traceback (most recent call last):
  File "train.py", line 7, in <module>
    dist.all_reduce(x)
RuntimeError: [./gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 8000ms for recv operation to complete'

job() # NAME RANKS TEXT: a directory in which all ranks left this text
{
    dir=$TAP/$1
    mkdir -p "$dir"
    for rank in $(seq 0 $(($2 - 1))); do echo "$3" >"$dir/rank_$rank.log"; done
}

says() # NAME KIND LAYER RANKS: of the only verdict in $TAP/out
{
    has "$1: kind" "\"kind\": *\"$2\"" "$TAP/out"
    has "$1: layer" "\"layer\": *\"$3\"" "$TAP/out"
    got=$(tr -d ' \n' <"$TAP/out" | sed 's/.*"ranks":\[\([^]]*\)\],"nodes".*/\1/')
    [ "$got" = "$4" ] || echo "# ranks '$got', expected '$4'" >&2
    [ "$got" = "$4" ]
    tap_result $? "$1: ranks"
}

why()
{
    exits 1 "$1: a verdict" "$LOCKSTEP" why --json "$dir"
}

job raised 4 "$lost"
cat >"$dir/rank_2.log" <<'END'
step 3 loss 2.1
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    raise ValueError("bad batch 17")
ValueError: bad batch 17
END
why "an exception"
says "an exception" crash user-code 2
has "in its own words" 'ValueError: bad batch 17' "$TAP/out"

job chained 3 "$lost"
cat >"$dir/rank_0.log" <<'END'
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 12, in step
[rank0]:     y = model(x)
[rank0]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[rank0]: 
[rank0]: During handling of the above exception, another exception occurred:
[rank0]: 
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 20, in cleanup
[rank0]:     dist.barrier()
[rank0]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.
END
why "memory of the GPU"
says "memory of the GPU" crash gpu-memory 0

job silent 4 "$lost"
echo "step 7 loss 1.9" >"$dir/rank_3.log"
why "no word"
says "no word" crash unknown 3

job stuck 4 "$waited"
echo "$lost" >"$dir/rank_1.log"
why "a timeout"
says "a timeout" hang unknown 1

job elastic 2 "$lost"
rm "$dir"/rank_*
cat >"$dir/torchrun.log" <<'END'
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: /usr/bin/python3
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-03-01_10:42:08
  host      : n2
  rank      : 12 (local_rank: 4)
  exitcode  : 1 (pid: 80)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:42:07
  host      : n2
  rank      : 9 (local_rank: 1)
  exitcode  : -9 (pid: 77)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 77
============================================================
END
why "a launcher's report"
says "a launcher's report" crash unknown 9
cat >"$dir/kern-n2.log" <<'END'
Mar  1 10:42:07 n2 kernel: [98712.3] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=77,uid=0
Mar  1 10:42:07 n2 kernel: [98712.3] Memory cgroup out of memory: Killed process 77 (python3) total-vm:104857600kB
END
why "a kernel's log joins by the pid"
says "a kernel's log joins by the pid" crash host-memory 9
has "and names the node" '"n2"' "$TAP/out"

job kernel 1 ""
rm "$dir"/rank_*
cat >"$dir/dmesg.txt" <<'END'
[ 1234.5] NVRM: Xid (PCI:0000:18:00): 45, pid=4242, name=python3, Ch 00000010
<6>[ 1235.5][ T1946] NVRM: Xid (PCI:0000:3b:00.0): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
6,1234,987654,-;NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
END
why "an Xid alone"
says "an Xid alone" node-fault pcie ''
has "on its device" '"device": *"0000:3b:00"' "$TAP/out"
[ "$(grep -c '"kind"' "$TAP/out")" = 1 ]
tap_result $? "is one verdict, not three"
cat >"$dir/nccl.log" <<'END'
n7:4100:4200 [3] NCCL INFO comm 0x55d rank 11 nranks 16 cudaDev 3 nvmlDev 3 busId 3b000 commId 0xabc - Init COMPLETE
END
sed -i 's/^6,.*//; s/^<6>/Mar  1 10:42:07 n7 kernel: /' "$dir/dmesg.txt"
why "NCCL's log says whose device that is"
says "NCCL's log says whose device that is" node-fault pcie 11

job srun 4 "$lost"
echo "step 3" >"$dir/rank_1.log"
echo "srun: error: n7: task 1: Segmentation fault (core dumped)" >"$dir/slurm-4211.out"
why "srun's word"
says "srun's word" crash unknown 1
has "and its signal" 'segmentation fault \(signal 11\)' "$TAP/out"

job well 3 "done"
exits 3 "logs without any word of an end" "$LOCKSTEP" why "$dir"
mkdir "$TAP/foreign"
head -c 5000 /dev/urandom >"$TAP/foreign/core.1234"
exits 3 "nothing that can be read" "$LOCKSTEP" why "$TAP/foreign"
has "is named" 'skipped core.1234: ' "$TAP/err"

# How many channels NCCL found for each communicator.
channels() # RANK PID NUMBER...: of each communicator, one after the other
{
    rank=$1 pid=$2
    shift 2
    for number; do
        echo "n$((rank / 2)):$pid:$((pid + 9)) [$((rank % 2))] NCCL INFO $number coll channels, $number collnet channels, 0 nvls channels, $number p2p channels, 2 p2p channels per peer"
    done >>"$dir/rank_$rank.log"
}

job narrow 4 "step 1 loss 2.5"
for rank in 0 1 3; do channels $rank 10$rank 16 8; done
channels 2 102 16 2
why "fewer channels on one rank"
says "fewer channels on one rank" sync-stall fabric 2
has "both numbers are told" 'has 2 channels, most ranks have 8' "$TAP/out"

job narrower 2 "step 1 loss 2.5"
for rank in 0 1; do
    channels $rank 10$rank 16 8
    channels $rank 20$rank 4 8 # the same again, after a restart
done
why "fewer channels than before"
says "fewer channels than before" sync-stall fabric ''
has "and since when" 'rank 0 has 4, had 16' "$TAP/out"

job wide 4 "step 1 loss 2.5"
for rank in 0 1 2 3; do
    channels $rank 10$rank 16 8
    channels $rank 20$rank 16 8
done
exits 3 "as many as before, and as others: no verdict" "$LOCKSTEP" why --json "$dir"
job stages 4 "step 1 loss 2.5" # the first and the last have a communicator more
for rank in 0 3; do channels $rank 10$rank 16 2 8; done
for rank in 1 2; do channels $rank 10$rank 16 8; done
exits 3 "ranks with other communicators are not compared" "$LOCKSTEP" why --json "$dir"
job narrow-crash 4 "$lost"
for rank in 0 1 3; do channels $rank 10$rank 16; done
channels 2 102 2
echo 'Traceback (most recent call last):
  File "train.py", line 9, in <module>
ValueError: bad batch 17' >"$dir/rank_1.log"
why "a crash"
says "a crash says more than channels" crash user-code 1
job damaged 3 "step 1 loss 2.5"
for rank in 0 1 2; do echo "n0:x:y NCCL INFO many coll channels, -3 coll channels, " >>"$dir/rank_$rank.log"; done
exits 3 "lines that are none" "$LOCKSTEP" why --json "$dir"

# One log of all ranks: some lines of the watchdogs name the process group, others do not.
dir=$TAP/watchdogs
mkdir "$dir"
watchdog() # RANK GROUP TEXT
{
    echo "[rank$1]:[E1112 10:42:13.12$1 ProcessGroupNCCL.cpp:616] [${2}Rank $1] $3" >>"$dir/slurm.out"
}
group='PG ID 0 PG GUID 0(default_pg) '
for rank in 0 3; do
    watchdog $rank "" "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1042, OpType=ALLREDUCE, \
NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
done
for rank in 0 1 3; do
    watchdog $rank "$group" "Exception (either an error or timeout) detected by watchdog at work: 1042, \
last enqueued NCCL work: 1045, last completed NCCL work: 1041."
done
watchdog 2 "$group" "Received a dump signal due to a collective timeout from rank 3 and we will try our best to dump \
the debug info. Last enqueued NCCL work: 1041, last completed NCCL work: 1041."
why "watchdogs with and without the group"
says "watchdogs with and without the group" hang unknown 2
grep -v 'rank2' "$dir/slurm.out" >"$dir/without" && mv "$dir/without" "$dir/slurm.out"
why "without the rank that is late"
says "without the rank that is late" hang unknown ""
has "without a rank, the advice names none" "names the rank that the others wait for" "$TAP/out"

# What shows a failure, but hardly why.
dir=$TAP/last
mkdir "$dir"
cat >"$dir/job.out" <<'END'
[rank0]:[W1019 08:16:22.397556647 ProcessGroupNCCL.cpp:1477] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.
[rank1]:[W1019 08:16:22.418489772 ProcessGroupNCCL.cpp:1477] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.
pure virtual method called
E1019 08:21:39.599000 3036 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: -6) local_rank: 0 (pid: 3042) of binary: /usr/bin/python
END
why "a rank that aborted itself at the end"
says "a rank that aborted itself at the end" crash unknown 0
later=$(date -d '+100 days' +%m%d)
echo "E$later 08:21:39.599000 77 torch/api.py:874] failed (exitcode: -11) local_rank: 0 (pid: 7) of binary: python" >"$dir/job.out"
why "a line whose date has no year"
newest=$(sed -n 's/.*"since_time": *"\([^"]*\)".*/\1/p' "$TAP/out")
ok "is not newer than its file" test "$(date -d "$newest" +%s)" -lt "$(date -d '+2 days' +%s)"
cat >"$dir/job.out" <<'END'
[2023-09-10 11:45:59,207] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 6293
[2023-09-10 11:45:59,501] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 6294
END
exits 3 "what a launcher does after a failure is no cause" "$LOCKSTEP" why "$dir"
cat >"$dir/job.out" <<'END'
n7:75:95 [2] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found
n7:75:95 [2] NCCL INFO comm 0x55 rank 2 nranks 8 - Init COMPLETE
END
exits 3 "a warning of NCCL alone is no cause" "$LOCKSTEP" why "$dir"
echo "n7:75:95 [2] NCCL INFO init.cc:1012 -> 3" >>"$dir/job.out"
why "a warning of NCCL before a failed call"
has "is quoted" 'Attribute arch of node cpu not found' "$TAP/out"

{ echo "2026-11-17 10:00:02 ERROR a service of this program did not start"; yes "nothing to say" | head -100; } >"$dir/job.out"
exits 3 "an error that nobody knows counts only at the end of a log" "$LOCKSTEP" why "$dir"
echo "2026-11-17 12:00:02 ERROR the shard server refused the lease" >>"$dir/job.out"
why "an error that nobody knows at the end"
has "is quoted with its line" '"line": *102' "$TAP/out"

# The real thing, where there is a torch.
torch=
for python in /usr/bin/python3 python3; do
    "$python" -c 'import torch.distributed' 2>/dev/null && torch=$python && break
done
if [ -z "$torch" ]; then
    skip "a real job" "no torch here"
    done_testing
fi
cat >"$TAP/job.py" <<'END'
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=3)
x = torch.ones(10)
for step in range(5):
    dist.all_reduce(x)
    if dist.get_rank() == 1 and step == 2:
        raise KeyError("no such shard")
END
dir=$TAP/torch
mkdir "$dir"
for rank in 0 1 2; do
    timeout 60 "$torch" "$TAP/job.py" "$TAP/meet" $rank >"$dir/rank_$rank.log" 2>&1 &
done
wait
why "a real job whose rank 1 raises"
says "a real job whose rank 1 raises" crash user-code 1
: >"$dir/rank_1.log" # as it leaves when it is killed
why "a real job whose rank 1 is killed"
says "a real job whose rank 1 is killed" crash unknown 1
done_testing
