#!/bin/sh
# Two real runs: the same program on a slower device, and another program.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

demo() # NAME OPTION...: a few steps under that name
{
    demo_name=$1
    shift
    ok "a run: $demo_name" timeout -k 5 60 "$LOCKSTEP" demo --json --ranks 4 --nodes 2 --steps 24 \
        --step-ms 80 --host-work-ms 1 --checkpoint-every 0 --name "$demo_name" "$@"
}

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' \
        "$TAP/answer" "$1"
}

demo sound --fault none
demo slow --fault gpu-slow:rank=2,factor=2,step=2
demo other --fault none --layout tp=2,dp=2

exits 0 "a run is as fast as itself" "$LOCKSTEP" diff sound sound
has "and the same program" 'the program is the same, and it is as fast as before$' "$TAP/out"
exits 1 "a slow device makes a slower run" "$LOCKSTEP" diff --json sound slow
cp "$TAP/out" "$TAP/answer"
is "which is the system's" "$(value 'd["cause"]')" system
is "the most in that rank's device" "$(value 'd["places"][0]["op"], d["places"][0]["ranks"]')" \
    "('device work of backward', [2])"
is "on its node" "$(value 'd["places"][0]["nodes"]')" "['n1']"
exits 1 "the same for people" "$LOCKSTEP" diff sound slow
has "code between operations is not ruled out" '^the program is the same in its operations: the system, or the code between them, is slower in$' "$TAP/out"
has "with the rank" '^  device work of backward: [0-9.]+ ms per step before, [0-9.]+ ms after, on rank 2 \(node n1\)$' "$TAP/out"
exits 0 "the other way round nothing is slower" "$LOCKSTEP" diff slow sound --share 0.05
exits 1 "another layout is another program" "$LOCKSTEP" diff sound other --json
cp "$TAP/out" "$TAP/answer"
is "and not the system's" "$(value 'd["cause"]')" program
has "it says which" '"program": "layout tp=1,pp=1,dp=4 against tp=2,pp=1,dp=2"' "$TAP/out"
is "and the first op that differs" "$(value 'd["first_op"]["after"][:10]')" all-reduce

exits 2 "one run is too few" "$LOCKSTEP" diff sound
exits 2 "three are too many" "$LOCKSTEP" diff sound slow other
exits 2 "a run that is not there is named" "$LOCKSTEP" diff sound nowhere
has "by its name" 'nowhere' "$TAP/err"
mkdir -p "$TAP/empty/spool"
echo "{}" >"$TAP/empty/run.json"
exits 3 "a run without steps cannot be compared" "$LOCKSTEP" diff sound "$TAP/empty/."
done_testing
