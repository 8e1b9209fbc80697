#!/bin/sh
# The batches of a rank arrive late while the job runs, and the kernel records of its node come through a FIFO: the disk is
# the cause.  The same line with the facility of a program causes nothing.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

field() # NAME: of the verdict about rank 2 in $TAP/out
{
    python3 -c '
import json, sys
verdicts = [v for v in json.load(open(sys.argv[1]))["verdicts"] if v["ranks"] == [2]]
print(json.dumps(verdicts[0][sys.argv[2]]) if verdicts else "none")
' "$TAP/out" "$1"
}

job() # NAME FACILITY-AND-LEVEL: a rank that waits for data, and one kernel record
{
    rm -f "$TAP/$1"
    mkfifo "$TAP/$1"
    exec 9<>"$TAP/$1"
    echo "$2,9,904000000,-;nvme nvme0: I/O 832 QID 9 timeout, reset controller" >&9
    LOCKSTEP_KMSG=$TAP/$1 "$LOCKSTEP" demo --json --name="$1" --ranks=4 --steps=60 --step-ms=40 \
        --fault=slow-input:rank=2,step=12,factor=2 >"$TAP/demo" 2>"$TAP/err"
    exec 9>&-
}

timed_is() # NAME GOT WANTED
{
    [ "$2" = "$3" ] || echo "# got $2, expected $3" >&2
    [ "$2" = "$3" ]
    timed_result $? "$1"
}

of_the_kernel()
{
    job kernel 3
    timed_exits 1 "a job in which one rank waits for its data" "$LOCKSTEP" why --json "$LOCKSTEP_STATE/runs/kernel"
    timed_is "has a straggler" "$(field kind)" '"straggler"'
    timed_is "for the storage" "$(field layer)" '"storage"'
    timed_is "the disk" "$(field device)" '"nvme0"'
    timed_is "that does not respond" "$(field cause)" '"disk does not respond"'
    grep -q 'kernel log' "$TAP/out"
    timed_result $? "which its kernel log shows"
    ok "judged again it is" "$LOCKSTEP" why --replay "$LOCKSTEP_STATE/runs/kernel"
    has "the same" 'byte-equal' "$TAP/out"
}

of_a_program()
{
    job program 12
    timed_exits 1 "the same job and the line of a program" "$LOCKSTEP" why --json "$LOCKSTEP_STATE/runs/program"
    timed_is "has a straggler, too" "$(field kind)" '"straggler"'
    timed_is "which waits for its data" "$(field layer)" '"data"'
    is "and no disk is blamed" "$(field device)" 'null'
}

timed of_the_kernel
timed of_a_program
done_testing
