#!/bin/sh
# lockstep sense --gpus: what NVML reports of each GPU, what it does not, and an NVML that hangs.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
LD_LIBRARY_PATH=$BUILD/src/device${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
LOCKSTEP_FAKE_DEVICE=$TAP/script
export LD_LIBRARY_PATH LOCKSTEP_FAKE_DEVICE

value() # GPU EXPRESSION of d, its line
{
    python3 -c 'import json, sys; d = json.loads(open(sys.argv[1]).readlines()[int(sys.argv[2])]); print(eval(sys.argv[3]))' \
        "$TAP/out" "$1" "$2"
}

cat >"$LOCKSTEP_FAKE_DEVICE" <<'END'
nvml.count value 3
nvml.0.gpm-2 value 93
nvml.0.gpm-5 error 3
nvml.0.memory-temperature error 3
nvml.0.slowed-by-heat value 1234567
nvml.1.gpm value 0
nvml.2.temperature error 15
END
ok "three GPUs" "$LOCKSTEP" sense --gpus --json
is "are three lines" "$(wc -l <"$TAP/out" | tr -d ' ')" 3
is "with what their parts did in a second" "$(value 0 'd["values"]["SMs active"]')" 93
is "and for how long they were slowed" "$(value 0 'd["values"]["time slowed by heat"]')" 1234567
is "what is not reported is listed, and never a zero" \
    "$(value 0 'd["not_reported"], "memory temperature" in d["values"]')" "(['memory temperature', 'tensor cores active'], False)"
is "as all activity of a GPU without counters" "$(value 1 'len(d["not_reported"])')" 8
is "a GPU that is lost says so" "$(value 2 'd["error"]')" "No such device"
is "and no value of it is there" "$(value 2 'd["values"]')" "{}"
ok "the same as text" "$LOCKSTEP" sense --gpus
has "has units" '^  power  *310000 mW' "$TAP/out"
has "and what is absent" '^  memory temperature  *not reported' "$TAP/out"
echo 'nvml.count hang' >"$LOCKSTEP_FAKE_DEVICE"
exits 2 "an NVML that hangs" "$LOCKSTEP" sense --gpus
has "is named" 'NVML did not answer within 3 s' "$TAP/err"
echo 'nvml.crash value 1' >"$LOCKSTEP_FAKE_DEVICE"
exits 2 "one that crashes" "$LOCKSTEP" sense --gpus
has "is named, too" 'NVML ended the process' "$TAP/err"
done_testing
