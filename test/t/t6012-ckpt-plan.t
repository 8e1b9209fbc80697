#!/bin/sh
# ckpt plan: memory, cost and interval from the size, the ranks, the disk and the failure rate.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
plan="$LOCKSTEP ckpt plan"
json() # EXPRESSION: of the answer on $TAP/out
{
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
ok "local disks" $plan --size 960 --ranks 64 --disk-rate 4 --node-mtbf 80d --copy-rate 15 --step 2s --json
is "memory of two images" "$(json 'a["nodes"], a["arena_gb_per_node"]')" "(8, 240.0)"
is "a save takes a rank's share" "$(json 'a["save_seconds"]')" "1.0"
is "a node writes its ranks" "$(json 'a["written_seconds"]')" "30.0"
is "eight nodes fail eight times as often" "$(json 'a["mtbf_seconds"]')" "864000.0"
is "the interval is Daly's, in whole steps" "$(json 'round(a["interval_seconds"]), a["interval_steps"]')" "(1314, 657)"
is "and says what a local disk survives" "$(json '[t["name"] for t in a["tiers"]], "not the loss" in a["tiers"][1]["survives"]')" \
    "(['memory', 'local disk'], True)"
ok "replicas that are compared" $plan --size 960 --ranks 64 --disk-rate 4 --node-mtbf 80d --copy-rate 15 --compare --json
is "take as much memory and time again, and no disk" "$(json 'a["arena_gb_per_node"], a["save_seconds"], a["disk_gb_per_node"]')" \
    "(480.0, 2.0, 120.0)"
ok "a shared disk" $plan --size 960 --ranks 64 --disk-rate 0.5 --shared --mtbf 1h
has "limits the interval" '^interval  a save every 32 min: the disk needs 32 min to write one' "$TAP/out"
exits 2 "no size" $plan --disk-rate 4 --mtbf 1d
exits 2 "no disk" $plan --size 4 --mtbf 1d
exits 2 "no failure rate" $plan --size 4 --disk-rate 4
exits 2 "two failure rates" $plan --size 4 --disk-rate 4 --mtbf 1d --node-mtbf 1d
exits 2 "no ranks" $plan --size 4 --disk-rate 4 --mtbf 1d --ranks 0
exits 2 "no operand" $plan --size 4 --disk-rate 4 --mtbf 1d DIR
done_testing
