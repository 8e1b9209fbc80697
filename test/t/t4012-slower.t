#!/bin/sh
# Jobs that become slower with nobody to blame, at once and bit by bit; a slowness that goes from rank to rank,
# and one that grows on a rank.  Real runs, each judged again.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

demo() # NAME STEPS FAULT
{
    timed_ok "$1: a demo" 60 "$LOCKSTEP" demo --json --ranks 4 --steps "$2" --step-ms 60 \
        --host-work-ms 0.5 --checkpoint-every 0 --name "$1" --fault "$3" || return
    cp "$TAP/out" "$TAP/$1.json"
}

said() # NAME WHAT KIND RANKS WORD: one verdict of that kind about these ranks, and its cause has that word
{
    python3 -c '
import json, sys
name, kind, ranks, word = sys.argv[1:]
verdicts = json.load(open(name))["verdicts"]
said = [v for v in verdicts if v["kind"] == kind and v["layer"] != "cpu"]
sys.exit([v["ranks"] for v in said] != [json.loads(ranks)] or word not in said[0]["cause"])' \
        "$TAP/$1.json" "$3" "$4" "$5"
    timed_result $? "$1: $2"
}

same() # NAME
{
    ok "$1: judged again" "$LOCKSTEP" why --replay "$1"
    has "$1: byte for byte the same" "byte-equal" "$TAP/out"
}

steps()
{
    demo steps 125 all-slow:factor=1.25,step=45 || return
    said steps "steps became longer at once, on all ranks" regression '[]' "at once"
    same steps
}
wanders()
{
    demo wanders 80 wandering-gpu:factor=2,step=30 || return
    said wanders "another rank is slow each time" straggler '[]' "migrating"
    same wanders
}
forms()
{
    demo forms 70 gpu-slow:rank=2,factor=1.08,step=24,over=100 || return
    said forms "a slow device is told while it forms" straggler '[2]' "forming"
    same forms
}
timed steps
timed wanders
timed forms
done_testing
