#!/bin/sh
# Jobs that become slower with nobody to blame, at once and bit by bit; a slowness that goes from rank to rank,
# and one that grows on a rank.  Real runs, each judged again.
. "$SOURCE/test/t/tap.sh"

demo() # NAME STEPS FAULT
{
    ok "$1: a demo" timeout -k 5 60 "$LOCKSTEP" demo --json --ranks 4 --steps "$2" --step-ms 60 \
        --host-work-ms 0.5 --checkpoint-every 0 --name "$1" --fault "$3"
    cp "$TAP/out" "$TAP/$1.json"
}

said() # NAME WHAT KIND RANKS WORD: one verdict of that kind about these ranks, and its cause has that word
{
    python3 -c '
import json, sys
name, kind, ranks, word = sys.argv[1:]
verdicts = json.load(open(name))["verdicts"]
said = [v for v in verdicts if v["kind"] == kind and v["layer"] != "cpu"]
right = [v["ranks"] for v in said] == [json.loads(ranks)] and word in said[0]["cause"]
sys.exit(0 if right else 77 if len(said) < len(verdicts) else 1)' "$TAP/$1.json" "$3" "$4" "$5"
    said=$?
    case $said in # who gets no cpu is slow for that reason, and the judges of the rest keep silent
    77) skip "$1: $2" "this machine was short of cpus meanwhile" ;;
    *) tap_result $said "$1: $2" ;;
    esac
}

same() # NAME
{
    ok "$1: judged again" "$LOCKSTEP" why --replay "$1"
    has "$1: byte for byte the same" "byte-equal" "$TAP/out"
}

demo steps 125 all-slow:factor=1.25,step=45
said steps "steps became longer at once, on all ranks" regression '[]' "at once"
same steps
demo wanders 80 wandering-gpu:factor=2,step=30
said wanders "another rank is slow each time" straggler '[]' "migrating"
same wanders
demo forms 70 gpu-slow:rank=2,factor=1.08,step=24,over=100
said forms "a slow device is told while it forms" straggler '[2]' "forming"
same forms
done_testing
