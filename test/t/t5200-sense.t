#!/bin/sh
# lockstep sense: findings of a file of kernel records, of a made tree, and what it says when it cannot read.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

field() # NAME: of every finding in $TAP/out, one a line
{
    python3 -c '
import json, sys
for line in open(sys.argv[1]):
    print(json.loads(line)[sys.argv[2]])
' "$TAP/out" "$1"
}

cat >"$TAP/kmsg" <<'END'
6,1,1000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104.05
4,2,900000000,-;NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, DBE
4,3,900500000,-;NVRM: Xid (PCI:0000:3b:00): 63, pid=4242, Row Remapper: New row marked for remapping
4,4,901000000,-;NVRM: Xid (PCI:0000:3b:00): 94, pid=4242, name=python3, Contained: SM (0x1)
4,5,901500000,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
12,6,902000000,-;NVRM: Xid (PCI:0000:86:00): 79, pid=1, name=sh, GPU has fallen off the bus.
3,7,903000000,-;nvme nvme0: I/O 832 QID 9 timeout, reset controller
3,8,903000000,-;nvme nvme0: I/O 833 QID 9 timeout, reset controller
END
exits 1 "kernel records with faults" "$LOCKSTEP" sense --once --json --kmsg "$TAP/kmsg"
is "are three findings" "$(wc -l <"$TAP/out" | tr -d ' ')" 3
is "of these kinds" "$(field kind | tr '\n' ' ')" 'xid xid nvme '
is "with the root first" "$(field code | tr '\n' ' ')" '48 79 None '
is "its line" "$(field line | tr '\n' ' ')" '2 6 7 '
is "how many lines" "$(field count | tr '\n' ' ')" '4 1 2 '
is "the device" "$(field device | tr '\n' ' ')" '0000:3b:00 0000:86:00 nvme0 '
is "the process" "$(field pid | tr '\n' ' ')" '4242 1 None '
is "and what the driver asks for, never for a line that a program wrote" "$(field action | tr '\n' ' ')" \
    'reset-gpu None inspect '
is "which is marked" "$(field origin | tr '\n' ' ')" 'kernel user-written kernel '
is "and believed less" "$(field confidence | tr '\n' ' ')" '0.95 0.5 0.95 '

is "which does not say of which node they are" "$(field node | sort -u)" None
exits 1 "the same as text" "$LOCKSTEP" sense --once --kmsg "$TAP/kmsg"
has "counts messages of a burst" 'then Xid 63, 94, 154 \(4 messages\)' "$TAP/out"
lacks "and does not say that the first came so often" ' times\)' "$TAP/out"
echo 'Nov 18 10:12:01 n7 kernel: EXT4-fs (sda1): Aborting journal on device sda1-8.' >"$TAP/named"
exits 1 "a line that names its node" "$LOCKSTEP" sense --once --json --kmsg "$TAP/named"
is "keeps it" "$(field node)" n7
is "and a device does not end with the dot of the sentence" "$(field device)" sda1-8

exits 2 "a source that is not known" "$LOCKSTEP" sense --once --only foo
has "is answered with those that are" 'kmsg, gpu, fabric, pcie, host, storage, metadata, leftovers' "$TAP/err"
mkdir "$TAP/empty"
exits 2 "a tree without any source" "$LOCKSTEP" sense --once --sysroot "$TAP/empty"
has "is not healthy" 'nothing found in what could be read' "$TAP/out"

head -n 1 "$TAP/kmsg" >"$TAP/benign"
exits 0 "a boot message" "$LOCKSTEP" sense --once --json --kmsg "$TAP/benign"
is "is no finding" "$(cat "$TAP/out")" ""
exits 2 "a file that is not there" "$LOCKSTEP" sense --once --kmsg "$TAP/none"
has "is named" "$TAP/none" "$TAP/err"
exits 2 "an Xid that nobody knows" "$LOCKSTEP" sense --explain 4000
exits 0 "a known one" "$LOCKSTEP" sense --explain 79
has "is explained" 'fallen off the bus' "$TAP/out"

tree=$TAP/tree # synthetic: the kernel's files, with made numbers
mkdir -p "$tree/sys/bus/pci/devices/0000:3b:00.0" "$tree/proc" "$tree/dev" "$tree/sys/class/nvme/nvme1"
device=$tree/sys/bus/pci/devices/0000:3b:00.0
echo 0x030200 >"$device/class"
echo 0x10de >"$device/vendor"
echo 8 >"$device/current_link_width"
echo 16 >"$device/max_link_width"
echo dead >"$tree/sys/class/nvme/nvme1/state"
echo ' 259 0 nvme1n1 1 0 8 1 1 0 8 1 0 1 1' >"$tree/proc/diskstats"
exits 1 "a tree with a narrow link and a dead disk" "$LOCKSTEP" sense --once --json --sysroot "$tree"
is "is two findings" "$(field kind | sort | tr '\n' ' ')" 'nvme pcie '
has "absent sources are named" 'not observed: kmsg' "$TAP/err"

sound=$TAP/sound # a tree in which nothing is wrong
mkdir -p "$sound/proc" "$sound/dev"
echo ' 259 0 nvme1n1 1 0 8 1 1 0 8 1 0 1 1' >"$sound/proc/diskstats"
exits 2 "a sound tree without a kernel log" "$LOCKSTEP" sense --once --sysroot "$sound"
has "is not called healthy" 'nothing found in what could be read' "$TAP/out"
cp "$TAP/benign" "$sound/dev/kmsg"
exits 0 "with one it is" "$LOCKSTEP" sense --once --sysroot "$sound"
exits 0 "parts that are asked for alone need none" "$LOCKSTEP" sense --once --only storage --sysroot "$sound"

mkfifo "$TAP/fifo"
"$LOCKSTEP" sense --json --kmsg "$TAP/fifo" >"$TAP/live" 2>"$TAP/err" &
sense=$!
exec 9>"$TAP/fifo"
echo '3,9,904000000,-;mlx5_core 0000:81:00.0 ens2np0: Link down' >&9
await test -s "$TAP/live"
has "a record in a FIFO is a finding at once" '"kind":"nic"' "$TAP/live"
echo '3,10,905000000,-;EXT4-fs (loop0): Remounting filesystem read-only' >&9
await grep -q loop0 "$TAP/live"
has "an image of a disk is no part of the node" '"severity":"warn".*"device":"loop0".*"action":null' "$TAP/live"
exec 9>&-
kill $sense
wait $sense 2>/dev/null

"$LOCKSTEP" doctor --json >"$TAP/out" 2>"$TAP/err"
for name in kmsg gpu fabric pcie host storage metadata leftovers; do
    has "doctor lists the sensor $name" "\"sensor $name\"" "$TAP/out"
done
done_testing
