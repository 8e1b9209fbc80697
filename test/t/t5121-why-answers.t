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

done_testing
