#!/bin/sh
# A disk of one node fails by degrees: first a rank there waits for its batches, then for ever, and the collectives of the
# others time out.  The verdicts name the disk and its node; the timeouts follow from it.  The same line, written to
# /dev/kmsg by a program, causes nothing.  Needs root and /dev/fuse.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

[ "$(id -u)" = 0 ] || skip_all "mounting needs root"
[ -c /dev/fuse ] || skip_all "no /dev/fuse here"
unshare -m true 2>"$TAP/err" || skip_all "no mount namespaces here: $(head -1 "$TAP/err")"
line='nvme nvme0: I/O 832 QID 9 timeout, reset controller'

job() # NAME [VARIABLE=VALUE...]: 4 ranks on 2 nodes; the batches of rank 2, which is on n1, come late, then never
{
    job_name=$1
    shift
    timed_ok "a job with a failing disk" 100 env "$@" "$LOCKSTEP" demo --json --name "$job_name" --ranks 4 --nodes 2 \
        --timeout 3s --step-ms 40 --steps 36 --fault slow-dataset:ms=60,step=10,steps=20,rank=2 \
        --fault stuck-storage:rank=2,step=30
}

verdict() # KIND EXPRESSION of v, the verdict of that kind about rank 2
{
    python3 -c '
import json, sys
verdicts = [v for v in json.load(open(sys.argv[1]))["verdicts"] if v["kind"] == sys.argv[2] and v["ranks"] == [2]]
v = verdicts[0] if len(verdicts) == 1 else None
print(eval(sys.argv[3]) if v else "%d verdicts" % len(verdicts))' "$TAP/answer" "$1" "$2"
}

says() # NAME KIND EXPRESSION EXPECTED
{
    says_got=$(verdict "$2" "$3")
    [ "$says_got" = "$4" ] || echo "# got '$says_got', expected '$4'" >&2
    [ "$says_got" = "$4" ]
    timed_result $? "$1"
}

what='v["layer"], v["device"], v["nodes"]'
kernel_line='[x["source"] for x in v["because"] if "disk" in x["what"]]'

failing_disk()
{
    mkdir -p "$TAP/kmsg"
    rm -f "$TAP/kmsg/n1"
    mkfifo "$TAP/kmsg/n1"
    exec 9<>"$TAP/kmsg/n1"
    echo "3,9,904000000,-;$line" >&9
    job kernel "LOCKSTEP_KMSG=$TAP/kmsg" || return
    exec 9>&-
    cp "$TAP/out" "$TAP/answer"
    says "the rank that is slow at first: storage, that disk, that node" straggler "$what" "('storage', 'nvme0', ['n1'])"
    says "the rank that others wait for in vain: the same" hang "$what" "('storage', 'nvme0', ['n1'])"
    says "because of the kernel's line" hang "$kernel_line" "['kernel log']"
    says "the cause is the disk" hang 'v["cause"]' 'disk does not respond'
    says "the timeout follows from it: whoever gave up first did not fail" hang \
        'any("exited with 1" in x["what"] for x in v["echoes"])' True
    others=$(python3 -c 'import json, sys; print([v["kind"] for v in json.load(open(sys.argv[1]))["verdicts"] if v["ranks"] != [2]])' "$TAP/answer")
    [ "$others" = '[]' ] || echo "# got '$others', expected none" >&2
    [ "$others" = '[]' ]
    timed_result $? "and are no verdict of their own"
    ok "the log says it again" "$LOCKSTEP" why --replay kernel
}
timed failing_disk

# On the other node it explains nothing.
other_node()
{
    rm -f "$TAP/kmsg/n1" "$TAP/kmsg/n0"
    mkfifo "$TAP/kmsg/n0"
    exec 9<>"$TAP/kmsg/n0"
    echo "3,9,904000000,-;$line" >&9
    job other "LOCKSTEP_KMSG=$TAP/kmsg" || return
    exec 9>&-
    cp "$TAP/out" "$TAP/answer"
    says "the same line of the other node explains nothing" hang 'v["device"], v["nodes"]' "(None, ['n1'])"
    faults=$(python3 -c '
import json, sys
print([(v["nodes"], v["device"], v["layer"], v["ranks"]) for v in json.load(open(sys.argv[1]))["verdicts"] if v["kind"] == "node-fault"])' "$TAP/answer")
    is "it is a fault of that node, which hurts no rank" "$faults" "[(['n0'], 'nvme0', 'storage', [])]"
    ok "the log says that again" "$LOCKSTEP" why --replay other
}
timed other_node

spoken() # NAME: agents of both nodes have opened their kernel log
{
    for node in n0 n1; do
        grep -q 'not observed' "$LOCKSTEP_STATE/runs/$1/agent-$node.log" || return 1
    done
}

of_program()
{
    (await spoken program && echo "$line" >/dev/kmsg) &
    job program LOCKSTEP_SENSE=1 || return
    wait $!
    cp "$TAP/out" "$TAP/answer"
    is "a line that a program wrote is known as one" \
        "$("$BUILD/test/node-frames" origins "$LOCKSTEP_STATE/runs/program/log.lsf" | grep nvme | sort -u | tr '\n' ' ')" \
        "user-written n0 nvme nvme0 user-written n1 nvme nvme0 "
    says "and is no cause" hang 'v["device"], [x["source"] for x in v["because"] if x["source"] == "kernel log"]' \
        "(None, [])"
}
if (: >/dev/kmsg) 2>/dev/null && dd if=/dev/kmsg of=/dev/null bs=8192 count=1 iflag=nonblock 2>"$TAP/err"; then
    timed of_program
else
    skip "a line that a program wrote is no cause" "/dev/kmsg cannot be written and read here"
fi
done_testing
