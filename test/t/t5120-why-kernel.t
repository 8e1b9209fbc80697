#!/bin/sh
# Kernel logs beside a run of our own: what they say about its processes and its node joins the verdicts, and nothing else
# does; the log judged again still says what was said.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

field() # NAME: of the first verdict in $TAP/out
{
    python3 -c '
import json, sys
verdicts = json.load(open(sys.argv[1]))["verdicts"]
print(json.dumps(verdicts[0][sys.argv[2]]) if len(verdicts) == 1 else "%d verdicts" % len(verdicts))
' "$TAP/out" "$1"
}

syslog() # SECONDS TEXT: so long before the fault
{
    echo "$(LC_ALL=C date -d "@$((then - $1))" '+%b %e %H:%M:%S') $host kernel: $2"
}

"$LOCKSTEP" demo --json --name=died --ranks=4 --steps=24 --step-ms=40 --checkpoint-every=5 \
    --fault=kill:rank=2,step=12 >"$TAP/demo" 2>"$TAP/err"
dir=$LOCKSTEP_STATE/runs/died
pid=$(sed -n 's/^ *"pid": *\([0-9]*\),.*/\1/p' "$TAP/demo" | head -n 1)
host=$(hostname)
mono=$(sed -n 's/^ *"mono_ns": *\([0-9]*\)[0-9]\{6\}.*/\1/p' "$TAP/demo" | head -n 1) # milliseconds
then=$(python3 -c 'import sys, time; print(int(time.time() - time.monotonic() + int(sys.argv[1]) / 1e3))' "$mono")
[ -n "$pid" ]
tap_result $? "a rank was killed, and its process is known"
"$LOCKSTEP" why --replay "$dir" >"$TAP/replay"
exits 1 "without a kernel's log" "$LOCKSTEP" why --json "$dir"
is "nobody knows by whom" "$(field layer)" '"unknown"'

{ # none of these says anything about it
    syslog 9000 "Out of memory: Killed process $pid (lockstep) total-vm:1kB"
    syslog 1 "Out of memory: Killed process $$ (sh) total-vm:1kB"
    syslog 1 "NVRM: Xid (PCI:0000:3b:00): 79, pid=$$, name=sh, GPU has fallen off the bus."
    syslog 1 "mlx5_core 0000:81:00.0 ens2np0: Link down"
    syslog 1 "EXT4-fs error (device sdb1): ext4_lookup:1690: inode #2: comm ls"
    (host=elsewhere; syslog 1 "Out of memory: Killed process $pid (lockstep) total-vm:1kB")
} >"$dir/kern.log"
exits 1 "lines about others" "$LOCKSTEP" why --json "$dir"
is "change nothing" "$(field layer)" '"unknown"'

syslog 1 "Out of memory: Killed process $pid (lockstep) total-vm:1kB" >>"$dir/kern.log"
exits 1 "the line about its process" "$LOCKSTEP" why --json "$dir"
is "is why" "$(field layer)" '"host-memory"'
is "it ended" "$(field ranks)" '[2]'
has "and the evidence names its file" '"file": *"kern.log"' "$TAP/out"
has "and its line" '"line": *7' "$TAP/out"
ok "judged again it is" "$LOCKSTEP" why --replay "$dir"
cmp "$TAP/out" "$TAP/replay"
tap_result $? "what was said, as if no log lay there"

mkdir "$dir/kernel"
echo "[$((mono / 1000)).5] NVRM: Xid (PCI:0000:3b:00): 94, pid=$pid, name=lockstep, Contained" \
    >"$dir/kernel/dmesg-$host.txt"
rm "$dir/kern.log"
exits 1 "seconds since boot, in a folder" "$LOCKSTEP" why --json "$dir"
is "are read, too" "$(field layer)" '"gpu-memory"'
is "with the device" "$(field device)" '"0000:3b:00"'

"$LOCKSTEP" demo --json --name=well --ranks=2 --steps=12 --step-ms=40 --fault=none >"$TAP/demo" 2>"$TAP/err"
dir=$LOCKSTEP_STATE/runs/well
then=$(date +%s)
{
    syslog 1 "NVRM: Xid (PCI:0000:3b:00): 79, pid=$$, name=sh, GPU has fallen off the bus."
    syslog 1 "mlx5_core 0000:81:00.0 ens2np0: Link down"
} >"$dir/kern.log"
"$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
lacks "beside a run that went well they are no verdict" '"kind"' "$TAP/out"
done_testing
