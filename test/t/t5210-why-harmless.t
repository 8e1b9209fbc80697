#!/bin/sh
# `lockstep why` on warnings, retries, errors that a job survived and words that only look like errors; ranks and
# collectives in a log that all ranks write to.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

mkdir "$TAP/logs"
ok "none of the logs gets a wrong answer" \
    python3 "$SOURCE/test/t/harmless.py" "$LOCKSTEP" "$SOURCE/test/t/harmless-logs.txt" "$TAP/logs"

timeout() { # RANK OP
    echo "[rank$1]:[E1118 10:30:0$1.123456789 ProcessGroupNCCL.cpp:633] [PG ID 0 PG GUID 0(default_pg) Rank $1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4211, OpType=$2, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
    echo "[rank$1]:[E1118 10:30:0$1.223456789 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank $1]  failure detected by watchdog at work sequence id: 4211 PG status: last enqueued work: 4213, last completed work: 4210"
}
for rank in 0 1 2 4 5 6 7; do timeout $rank ALLREDUCE; done >"$TAP/desync.log"
timeout 3 BROADCAST >>"$TAP/desync.log"
exits 1 "one rank is in another collective of the same number" "$LOCKSTEP" why "$TAP/desync.log"
has "it is named" '^desync: rank 3: entered another collective than the others' "$TAP/out"

for rank in 0 1 2 3 4 5 6 7; do echo "$rank: begin"; done >"$TAP/slurm-1.out"
for rank in 0 1 2 4 5 6 7; do timeout $rank ALLREDUCE; done | sed 's/^\[rank\(.\)/\1: [rank\1/' >>"$TAP/slurm-1.out"
exits 1 "one rank of a common log reports no timeout" "$LOCKSTEP" why "$TAP/slurm-1.out"
has "it is the one that the others wait for" '^hang: rank 3: did not enter a collective' "$TAP/out"
sed -i '/^[4567]: \[/d' "$TAP/slurm-1.out"
exits 1 "most ranks report no timeout" "$LOCKSTEP" why "$TAP/slurm-1.out"
has "so nobody is named" '^hang: a collective timed out' "$TAP/out"
for rank in 0 1 2 3 4 5 6 7; do echo "[rank$rank]: begin"; done >"$TAP/notified.log"
for rank in 0 1 2 4 5 6 7; do timeout $rank ALLREDUCE; done >>"$TAP/notified.log"
echo "[rank3]:[E1118 10:30:08.123456789 ProcessGroupNCCL.cpp:1537] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info." >>"$TAP/notified.log"
exits 1 "a rank was only informed of the timeout" "$LOCKSTEP" why "$TAP/notified.log"
has "it did not wait, and is named" '^hang: rank 3: did not enter a collective' "$TAP/out"

echo 'NVRM: Xid (PCI:0000:3b:00): 79, pid=77, name=python, GPU has fallen off the bus.' >"$TAP/dmesg.txt"
echo '[rank3]: RuntimeError: CUDA error: unspecified launch failure' >"$TAP/train.log"
exits 1 "a kernel's message without a date beside a failed job" "$LOCKSTEP" why "$TAP/dmesg.txt" "$TAP/train.log"
tr '\n' ' ' <"$TAP/out" | tr -s ' ' >"$TAP/flat"
has "the job's own error comes first" '^crash: rank 3: a GPU kernel failed' "$TAP/out"
has "and the missing date is mentioned" 'the kernel log with dates' "$TAP/flat"
echo 'n7:12:13 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error' >"$TAP/port.log"
exits 1 "a port of a network adapter went down" "$LOCKSTEP" why --json "$TAP/port.log"
has "is a finding about the node, and no crash" '"kind": "node-fault"' "$TAP/out"
done_testing
