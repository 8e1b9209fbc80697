#!/bin/sh
# What the sensors of an agent cost, counted: reads and memory of the agent with its children over the files of a node
# with 8 GPUs and 9 network adapters; and all system calls and bytes of the sensors alone.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
nvml=$BUILD/src/device/libnvidia-ml.so.1

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/answer" "$1"
}

ok "the tree of a node" "$LOCKSTEP" bench agent --tree "$TAP/tree" --nvml "$nvml"
exits 2 "is not made twice" "$LOCKSTEP" bench agent --tree "$TAP/tree"
ok "a healthy node shows nothing" "$LOCKSTEP" sense --once --sysroot "$TAP/tree"
lacks "and every sensor reads it" 'not observed' "$TAP/err"

# Whether CPU time is within its limit depends on the machine, what is counted does not.  The ranks do little: how many bytes of
# their rings the agent reads in a second varies on a busy machine by more than all that the sensors read.
TMPDIR=$TAP "$LOCKSTEP" bench agent --json --seconds 3 --ops 1 --step-ms 1000 --nvml "$nvml" >"$TAP/answer" 2>"$TAP/err"
[ $? -le 1 ]
tap_result $? "an agent is measured without and with sensors"
is "GPUs are read" "$(value 'd["gpus_read"]')" True
is "CPU time of both is measured" "$(value 'd["cpu_percent_of_core"] > 0 and d["cpu_percent_without_sensors"] > 0')" True
is "sensors make at most 500 reads per second" \
    "$(value '10 < d["reads_per_second"] - d["reads_per_second_without_sensors"] < 500 or d')" True
is "agent and children have at most 8 MB of memory of their own" "$(value '0 < d["rss_anon_bytes"] <= 8 << 20 or d')" True
is "nothing is left" "$(find "$TAP" -maxdepth 1 -name 'lockstep-bench*')" ""

if strace -o "$TAP/try" true 2>/dev/null; then
    timeout 60 strace -f -qq -o "$TAP/trace" -e signal=none timeout 6 "$LOCKSTEP" sense --sysroot "$TAP/tree" >"$TAP/out" 2>"$TAP/err"
    calls=$(wc -l <"$TAP/trace")
    [ "$calls" -gt 1000 ] && [ "$calls" -lt 18000 ]
    tap_result $? "six seconds of all sensors need at most 18000 system calls ($calls), start and GPUs included"
    bytes=$(awk '/ (read|pread64)\(/ && $NF > 0 { sum += $NF } END { print sum + 0 }' "$TAP/trace")
    [ "$bytes" -gt 10000 ] && [ "$bytes" -lt 393216 ]
    tap_result $? "and read at most 64 KiB per second ($bytes bytes)"
else
    skip "system calls of sensors" "strace may not trace here"
fi
done_testing
