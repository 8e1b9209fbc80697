#!/bin/sh
# lockstep check: what it finds on a node with missing, odd and silent parts; profile, callers, JSON, exit status.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
check() { LOCKSTEP_FAKE_DEVICE=$TAP/fake "$LOCKSTEP" check --sysroot "$TAP/tree" "$@"; }
state() # NAME: of the first result with this name
{
    value "[c['state'] for c in d['checks'] if c['name'] == '$1'][0]"
}

small="cuda.*.multiprocessors value 4
cuda.*.free value 1048576"
echo "nvml.count value 8
$small" >"$TAP/fake"
ok "the tree of a node" "$LOCKSTEP" bench agent --tree "$TAP/tree"
mkdir -p "$TAP/tree/usr/lib"
for library in libnvidia-ml.so.1 libcuda.so.1; do ln -s "$BUILD/src/device/$library" "$TAP/tree/usr/lib/$library"; done
ok "a healthy node is fit" check --json
is "the names that others use" "$(value 'sorted(d)')" "['checks', 'node', 'seconds', 'stage', 'verdict']"
is "of each check as well" "$(value 'sorted(d["checks"][0])')" "['device', 'expected', 'name', 'seconds', 'state', 'unit', 'value', 'why']"
is "its stage is quick" "$(value 'd["stage"]')" quick
is "its GPUs are alike" "$(state gpu-peers)" ok
is "without a profile nothing is said about parts" "$(state inventory)" not-applicable
is "kernel log, host and disks are looked at" "$(state kmsg) $(state host) $(state storage)" "ok ok ok"

# What was not looked at is counted, and never ok.
ok "text says so as well" check
has "with a number" 'ok, [1-9][0-9]* not applicable$' "$TAP/out"
is "and without a line for each" "$(grep -c '^n/a' "$TAP/out")" 0
exits 3 "a check that does not apply is not ok" check --only inventory
has "and has its reason" '^n/a .*no profile says what is expected' "$TAP/out"
cp -r "$TAP/tree" "$TAP/silent"
silent() { LOCKSTEP_FAKE_DEVICE=$TAP/fake "$LOCKSTEP" check --sysroot "$TAP/silent" "$@"; }
rm "$TAP/silent/dev/kmsg" "$TAP/silent/proc/diskstats"
rm -f "$TAP/silent/usr/lib/libnvidia-ml.so.1"
exits 3 "a node without a kernel log is not ok" silent --json
is "by its state" "$(state kmsg) $(state storage)" "unknown unknown"
is "GPUs on the bus without a driver are unknown" "$(state gpu) $(state gpu-peers)" "unknown unknown"
has "with the reason" '8 NVIDIA GPUs are on the PCI bus' "$TAP/out"
exits 3 "text counts them" silent
has "in the last line" ': unknown \(quick, .*: [1-9][0-9]* unknown, ' "$TAP/out"
for device in "$TAP"/silent/sys/bus/pci/devices/*; do grep -q 0x10de "$device/vendor" && rm -rf "$device"; done
rm -rf "$TAP"/silent/dev/nvidia* "$TAP/silent/sys/module/nvidia"
exits 3 "without GPUs on the bus" silent --json
is "none is expected" "$(state gpu) $(state gpu-peers) $(state leftovers)" "not-applicable not-applicable not-applicable"

# The same kernel log as lockstep sense: also what was written before now.
echo "3,2,2000000,-;NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU has fallen off the bus." >>"$TAP/tree/dev/kmsg"
exits 1 "sense finds what is in the kernel log" "$LOCKSTEP" sense --once --only kmsg --sysroot "$TAP/tree"
exits 1 "check finds it as well" check --json --only sensors
is "as failed" "$(state kmsg)" failed
sed -i '/Xid/d' "$TAP/tree/dev/kmsg"

# What a site expects is learnt.
ok "a profile is learnt" check --stage prolog --dir "$TAP" --learn "$TAP/profile.json"
has "with rates" '"memory-rate"' "$TAP/profile.json"
is "and their median and spread" "$(python3 -c 'import json, sys; print(sorted(json.load(open(sys.argv[1]))["summary"]["memory-rate"]))' "$TAP/profile.json")" \
    "['lowest', 'median', 'samples', 'spread']"
has "and counts" '"gpu count": *"8"' "$TAP/profile.json"
has "and digests" '"digest bf16 NVIDIA H100 80GB HBM3 13000": *"[0-9a-f]{8}"' "$TAP/profile.json"
ok "the same node fits its profile" check --json --only inventory --profile "$TAP/profile.json"
is "and says so" "$(state inventory)" ok
gpu=$(for d in "$TAP"/tree/sys/bus/pci/devices/*; do grep -l 0x10de "$d/vendor" 2>/dev/null && break; done | head -n 1)
rm -rf "${gpu%/vendor}"
exits 1 "a GPU that is gone from the bus fails" check --json --only inventory --profile "$TAP/profile.json"
is "as missing part" "$(value '"failed" in [c["state"] for c in d["checks"] if c["name"] == "inventory"]')" True
has "with both numbers" 'gpu count: 7, the profile has 8' "$TAP/out"
exits 1 "text says what to do" check --only inventory --profile "$TAP/profile.json"
has "in a line" 'to do: reseat or replace' "$TAP/out"
python3 - "$TAP/profile.json" "$TAP/fast.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
d["values"]["memory-rate"] = [100000.0] * 3
json.dump(d, open(sys.argv[2], "w"))
END
slow_memory()
{
    check --json --only memory-rate --profile "$TAP/fast.json" >"$TAP/out" 2>"$TAP/err"
    [ $? = 1 ]
    timed_result $? "memory with a hundredth of the rate fails" || return # other programs had the processors
    is "as memory" "$(state memory-rate)" failed
}
LOAD_LIMIT=5 # the check itself says unknown from there on: others took the processors, or the memory's rate
timed slow_memory
# GPUs that are odd, lost or silent.
echo "nvml.count value 8
nvml.5.pcie-width value 8" >"$TAP/fake"
ok "a narrow link is limited" check --json --only gpu-peers
is "by its state" "$(state gpu-peers)" limited
is "and named" "$(value 'd["checks"][0]["device"]')" "gpu 5"
echo "nvml.count value 8
nvml.5.* error 15" >"$TAP/fake"
exits 1 "a lost GPU fails" check --json --only gpu-peers
echo "nvml.init hang" >"$TAP/fake"
exits 3 "a driver that hangs is unknown, never ok" check --json
is "within its time" "$(value 'd["seconds"] < 30')" True
has "with the reason" 'no answer within' "$TAP/out"
is "and is no reason to drain the node" "$(check --only gpu-peers --for prolog >"$TAP/out"; echo $?)" 0
is "node-problem-detector gets its own status" "$(check --only gpu-peers --for npd >"$TAP/out"; echo $?)" 2
is "and one line of at most 80 characters" "$(awk '{ print NR, (length($0) <= 80) }' "$TAP/out")" "1 1"

# Arithmetic of GPUs: one wrong bit in one tile.
echo "nvml.count value 8
$small
cuda.6.flip-sm value 2" >"$TAP/fake"
exits 1 "a wrong bit of a GPU fails" check --json --only gpu-arithmetic --profile "$TAP/profile.json"
is "the GPU is named, and the SM" "$(value '[(c["device"], c["value"], c["unit"]) for c in d["checks"] if c["state"] == "failed"]')" "[('gpu 6', 2.0, 'SM')]"
echo "nvml.count value 8
$small
nvml.6.processes text 4711 1000" >"$TAP/fake"
exits 3 "a GPU in use is not touched" check --only gpu-arithmetic
has "and the process is named" 'unknown +gpu-arithmetic gpu 6 .*in use by process 4711' "$TAP/out"

# Rates of GPUs: one table, and the odd one is marked.
rates="cuda.*.memory-rate value 3000
cuda.*.pcie-rate value 500
cuda.*.peer-rate value 2000"
echo "nvml.count value 8
$small
$rates" >"$TAP/fake"
ok "GPUs of one rate" check --only gpu-rate
is "have a row each" "$(grep -c '^gpu [0-7] ' "$TAP/out")" 8
has "and a column for each measurement" 'gpu-memory-rate GB/s +pcie-to-gpu GB/s +pcie-from-gpu GB/s +gpu-to-gpu GB/s' "$TAP/out"
lacks "none is marked" '\*' "$TAP/out"
echo "cuda.5.peer-rate value 1500" >>"$TAP/fake"
ok "a GPU with a slow link" check --only gpu-rate
is "is marked in its row" "$(grep '\*' "$TAP/out" | cut -c 1-5)" "gpu 5"
has "and has a line with the reason" 'limited +gpu-to-gpu gpu 5 .* median of 8 GPUs' "$TAP/out"
if command -v script >/dev/null; then
    script -qec "LOCKSTEP_FAKE_DEVICE=$TAP/fake $LOCKSTEP check --only gpu-rate --sysroot $TAP/tree" /dev/null >"$TAP/terminal" </dev/null
    has "on a terminal a bar shows how far it is" '\[\.+\] 0 of 1 checks, [0-9]+ s: gpu-rate' "$TAP/terminal"
    has "until the end" '\[#+\] 1 of 1 checks' "$TAP/terminal"
else
    skip "a bar on a terminal" "no script(1) here"
fi

# What is refused.
exits 2 "no such stage" check --stage thorough
exits 2 "no such check" check --only nonsense
exits 2 "no such caller" check --for cron
exits 2 "a profile that is named must be there" check --profile "$TAP/absent.json"
echo '{"format":"x"}' >"$TAP/bad.json"
exits 2 "and be one" check --profile "$TAP/bad.json"
has "with the reason" 'expected "format"' "$TAP/err"
ok "the list" check --list
has "has the arithmetic" '^cpu-math' "$TAP/out"
is "nothing is left in the directory" "$(find "$TAP" -maxdepth 1 -name 'tmp*' -o -maxdepth 1 -name 'profile.json.*')" ""
done_testing
