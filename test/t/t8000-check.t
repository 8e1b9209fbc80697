#!/bin/sh
# lockstep check: what it finds on a node with missing, odd and silent parts; profile, callers, JSON, exit status.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
check() { LD_LIBRARY_PATH=$BUILD/src/device LOCKSTEP_FAKE_DEVICE=$TAP/fake "$LOCKSTEP" check --sysroot "$TAP/tree" "$@"; }
state() # NAME: of the first result with this name
{
    value "[c['state'] for c in d['checks'] if c['name'] == '$1'][0]"
}

echo "nvml.count value 8" >"$TAP/fake"
ok "the tree of a node" "$LOCKSTEP" bench agent --tree "$TAP/tree"
ok "a healthy node is fit" check --json
is "the names that others use" "$(value 'sorted(d)')" "['checks', 'node', 'seconds', 'stage', 'verdict']"
is "of each check as well" "$(value 'sorted(d["checks"][0])')" "['device', 'expected', 'name', 'seconds', 'state', 'unit', 'value', 'why']"
is "its stage is quick" "$(value 'd["stage"]')" quick
is "its GPUs are alike" "$(state gpu-peers)" ok
is "without a profile nothing is said about parts" "$(value '[c for c in d["checks"] if c["name"] == "inventory"]')" "[]"

# What a site expects is learnt.
ok "a profile is learnt" check --stage prolog --dir "$TAP" --learn "$TAP/profile.json"
has "with rates" '"memory-rate"' "$TAP/profile.json"
has "and counts" '"gpu count": *"8"' "$TAP/profile.json"
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
exits 1 "memory with a hundredth of the rate fails" check --json --only memory-rate --profile "$TAP/fast.json"
is "as memory" "$(state memory-rate)" failed

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

# Arithmetic, and what is refused.
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
