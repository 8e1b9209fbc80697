#!/bin/sh
# What a node knows, joined to the rank that it hurts: the last words that a reader gets.  Lines come live through a FIFO, as root's
# agent reads the kernel log, or lie beside the run afterwards.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

field() # NAME: of the first verdict about rank 2 in $TAP/out
{
    python3 -c '
import json, sys
verdicts = [v for v in json.load(open(sys.argv[1]))["verdicts"] if v["ranks"] == [2]]
print(json.dumps(verdicts[0][sys.argv[2]]) if verdicts else "none")
' "$TAP/out" "$1"
}

timed_is() # NAME GOT WANTED
{
    [ "$2" = "$3" ] || echo "# got $2, expected $3" >&2
    [ "$2" = "$3" ]
    timed_result $? "$1"
}

says() # NAME WORDS: in the text that a reader gets
{
    "$LOCKSTEP" why "$dir" >"$TAP/text" 2>&1
    grep -qE "$2" "$TAP/text"
    timed_result $? "$1"
}

live() # NAME LINE OPTION...: a demo while the kernel writes that line
{
    name=$1 line=$2
    shift 2
    rm -f "$TAP/$name"
    mkfifo "$TAP/$name"
    exec 9<>"$TAP/$name"
    echo "3,9,904000000,-;$line" >&9
    LOCKSTEP_KMSG=$TAP/$name "$LOCKSTEP" demo --json --name="$name" --ranks=4 --steps=60 --step-ms=40 "$@" >"$TAP/demo" 2>"$TAP/err"
    exec 9>&-
    dir=$LOCKSTEP_STATE/runs/$name
    "$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
}

beside() # SECONDS-BEFORE LINE: as journalctl has it; @ is the process of the faulty rank
{
    pid=$(sed -n 's/^ *"pid": *\([0-9]*\),.*/\1/p' "$TAP/demo" | head -n 1)
    mono=$(sed -n 's/^ *"mono_ns": *\([0-9]*\)[0-9]\{6\}.*/\1/p' "$TAP/demo" | head -n 1)
    then=$(python3 -c 'import sys, time; print(int(time.time() - time.monotonic() + int(sys.argv[1]) / 1e3))' "$mono")
    echo "$(LC_ALL=C date -d "@$((then - $1))" '+%b %e %H:%M:%S') $(hostname) kernel: $(echo "$2" | sed "s/@/$pid/")"
}

dead_job() # of which logs are left: a double-bit error ten minutes before its collective times out
{
    dir=$TAP/dead
    mkdir "$dir"
    for rank in 0 1 2 3; do
        cat >"$dir/rank$rank-n$rank.log" <<END
[rank$rank]:[E1115 15:51:13.145363 ProcessGroupNCCL.cpp:632] [Rank $rank] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4812, OpType=ALLREDUCE, NumelIn=67108864, NumelOut=67108864, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.
[rank$rank]:[E1115 15:51:13.210000 ProcessGroupNCCL.cpp:703] [Rank $rank] To avoid data inconsistency, we are taking the entire process down.
END
    done
    echo '[Sun Nov 15 09:12:01 2026] mlx5_core 0000:81:00.0 ens2np0: Link up' >"$dir/dmesg-n0.txt"
    cat >"$dir/dmesg-n2.txt" <<END
[Sun Nov 15 15:41:12 2026] NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, DBE: An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 4, subpartition 1.
[Sun Nov 15 15:41:12 2026] NVRM: Xid (PCI:0000:3b:00): 45, pid=4242, name=python3, Ch 00000008
END
    "$LOCKSTEP" why "$dir" >"$TAP/text" 2>&1
}

double_bit_error()
{
    "$LOCKSTEP" demo --json --name=dbe --ranks=4 --steps=40 --step-ms=40 --timeout=20s --fault=gpu-hang:rank=2,step=12 \
        >"$TAP/demo" 2>"$TAP/err"
    dir=$LOCKSTEP_STATE/runs/dbe
    beside 0 "NVRM: Xid (PCI:0000:3b:00): 48, pid=@, name=lockstep, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 4, subpartition 1." >"$dir/kern.log"
    beside 0 "NVRM: Xid (PCI:0000:86:00): 48, pid=1, name=other, DBE" >>"$dir/kern.log"
    "$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
    timed_is "a double-bit error of the rank's process" "$(field layer)" '"gpu-memory"'
    timed_is "is of the GPU in the line" "$(field device)" '"0000:3b:00"'
    says "and the text says so" 'rank 2 .*Xid 48'
}

bus() # without a process, on the node of the rank
{
    "$LOCKSTEP" demo --json --name=bus --ranks=4 --steps=40 --step-ms=40 --timeout=20s --fault=gpu-hang:rank=2,step=12 \
        >"$TAP/demo" 2>"$TAP/err"
    dir=$LOCKSTEP_STATE/runs/bus
    beside 1 "NVRM: GPU at PCI:0000:3b:00.0 has fallen off the bus" >"$dir/kern.log"
    "$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
    timed_is "a GPU that left the bus, in a line without a process" "$(field layer)" '"pcie"'
    says "is why the rank hangs" 'rank 2 .*Xid 79'
    sed -n '/^hang/,/confidence/p' "$TAP/text" | grep -oE 'confidence 0\.[0-9]+' | head -n 1 >"$TAP/sure"
    timed_is "believed less, since only the node is named" "$(cat "$TAP/sure")" 'confidence 0.80'
}

file_server()
{
    live server 'nfs: server nas7 not responding, still trying' --fault=slow-input:rank=2,step=12,factor=2
    timed_is "a file server that does not respond" "$(field layer)" '"storage"'
    timed_is "is named" "$(field device)" '"nas7"'
    says "and the rank that waits for it" 'rank 2 .*file server does not respond'
}

unknown_words() # in which no rule has it
{
    live words 'nvme nvme3: Admin queue hung, controller is unresponsive after 3 attempts' --fault=slow-input:rank=2,step=12,factor=2
    timed_is "a line that nobody collected" "$(field layer)" '"storage"'
    timed_is "names its disk" "$(field device)" '"nvme3"'
    says "and the text says what the kernel said" 'NVMe disk does not respond'
}

memory() # the kernel kills the rank at its limit
{
    rm -f "$TAP/oom"
    mkfifo "$TAP/oom"
    exec 9<>"$TAP/oom"
    # shellcheck disable=SC2016 # of the rank's shell
    LOCKSTEP_KMSG=$TAP/oom LOCKSTEP_SENSE=1 "$LOCKSTEP" run --quiet -n 4 --name oom --max-restarts 0 -- sh -c '
        if [ "$RANK" = 2 ]; then
            ( sleep 3 # ranks train, and the agent reads the log
              echo "3,9,904000000,-;Memory cgroup out of memory: Killed process $$ (trainer) total-vm:104857600kB, anon-rss:99857600kB, UID:0" >"$LOCKSTEP_KMSG"
              kill -9 $$ ) &
        fi
        exec "$0" trainer --steps 400 --step-ms 20 --host-work-ms 0' "$LOCKSTEP" >"$TAP/demo" 2>"$TAP/err"
    exec 9>&-
    dir=$LOCKSTEP_STATE/runs/oom
    "$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
    timed_is "a rank that the kernel killed for its cgroup" "$(field layer)" '"host-memory"'
    says "is told with the limit" 'rank 2 .*killed by the kernel for lack of memory: the limit of its cgroup'
}

dead_job
has "a double-bit error ten minutes before the timeout is the cause" 'crash: Xid 48: double-bit ECC error' "$TAP/text"
has "with its device" 'Device *0000:3b:00' "$TAP/text"
has "and the timeouts followed from it" 'What followed from it: a' "$TAP/text"
timed double_bit_error
timed bus
timed file_server
timed unknown_words
timed memory
done_testing
