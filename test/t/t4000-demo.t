#!/bin/sh
# The demonstration: faults are named, a killed rank is started again, and what programs read of
# it has the names that they expect.  How soon something is said is for `lockstep bench verdicts`.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

json() # PYTHON-LIKE PATH: value at a.b.0.c of $TAP/answer
{
    python3 -c '
import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    value = value[int(key)] if key.isdigit() else value[key]
print(json.dumps(value))' "$TAP/answer" "$1"
}

said() # KIND LAYER RANKS: whether a verdict says that; LAYER may be -
{
    python3 -c '
import json, sys
for verdict in json.load(open(sys.argv[1]))["verdicts"]:
    if verdict["kind"] == sys.argv[2] and sys.argv[3] in (verdict["layer"], "-") and \
            json.dumps(verdict["ranks"]) == sys.argv[4]:
        sys.exit(0 if verdict["because"] else 1)
sys.exit(1)' "$TAP/answer" "$1" "$2" "$3"
    timed_result $? "says $1, $2, ranks $3"
}

demo() # NAME OPTION...: $TAP/answer is its JSON
{
    demo_name=$1
    shift
    timed_ok "$demo_name" 100 "$LOCKSTEP" demo --json "$@" || return
    cp "$TAP/out" "$TAP/answer"
}

ok "lists its faults" "$LOCKSTEP" demo --list-faults
has "a slow device is one" "^ *gpu-slow" "$TAP/out"
exits 2 "refuses a fault that it does not know" "$LOCKSTEP" demo --fault gpu-slwo
has "and says where they are listed" "list-faults" "$TAP/err"
exits 2 "refuses a rank that is not there" "$LOCKSTEP" demo --ranks 4 --fault gpu-slow:rank=4
exits 2 "refuses more nodes than ranks" "$LOCKSTEP" demo --ranks 2 --nodes 3

first_demo()
{
    demo "a slow device and a killed rank" --ranks 4 --steps 60 --checkpoint-every 10 --name first \
        --fault gpu-slow:rank=2,factor=2,step=12,steps=20 --fault kill:rank=1,step=45 || return
    said straggler gpu "[2]"
    said crash - "[1]"
    has "says what was done" '"fault": *"kill"' "$TAP/answer"
    for name in run injected verdicts ledger bytes_per_rank_step; do
        json $name >"$TAP/value"
        tap_result $? "has $name"
    done
    for name in ranks wall_seconds goodput ettr buckets.productive buckets.lost buckets.restart; do
        json ledger.$name >"$TAP/value"
        tap_result $? "the ledger has $name"
    done
    python3 -c '
import json, sys
ledger = json.load(open(sys.argv[1]))["ledger"]
total = ledger["ranks"] * ledger["wall_seconds"]
sys.exit(abs(sum(ledger["buckets"].values()) - total) > 1e-3 * total)' "$TAP/answer"
    tap_result $? "every GPU-second is in one bucket"
    [ "$(json bytes_per_rank_step | cut -d. -f1)" -le 8192 ]
    tap_result $? "a step takes at most 8 KB"

    exits 1 "why explains it afterwards" "$LOCKSTEP" why first
    grep -Eq "straggler: rank 2 " "$TAP/out"
    timed_result $? "the straggler"
    has "the crash" "crash: rank 1 " "$TAP/out"
    has "the restart" "restart 1" "$TAP/out"
    ok "judged again it says the same" "$LOCKSTEP" why first --replay
    has "byte for byte" "byte-equal" "$TAP/out"
}
timed first_demo

slow_host()
{
    demo "a slow host in a pipeline" --ranks 8 --layout tp=2,pp=2,dp=2 --steps 36 \
        --fault host-sleep:rank=5,factor=2,step=14 || return
    said straggler user-code "[5]"
}
timed slow_host

healthy()
{
    demo "nothing" --ranks 4 --steps 30 --fault none || return
    python3 -c '
import json, sys
# A machine that is busy with other things is rightly called so.
sys.exit(any(v["layer"] != "cpu" for v in json.load(open(sys.argv[1]))["verdicts"]))' "$TAP/answer"
    timed_result $? "says nothing about a healthy run"
}
timed healthy

if [ -d "/proc/$$" ] && pgrep -f "$TAP" >"$TAP/out" 2>/dev/null; then
    tap_result 1 "leaves nobody behind"
else
    tap_result 0 "leaves nobody behind"
fi


ok "as text" timeout -k 5 100 "$LOCKSTEP" demo --ranks 2 --steps 12 --step-ms 20 --fault none
lacks "it speaks of no verdicts, since there are none" 'these verdicts' "$TAP/out"
tail -n 1 "$TAP/out" >"$TAP/last"
ok "it ends with a command that works as printed" sh -c "$(cat "$TAP/last")"
has "and shows that run again" '^where .* GPU-seconds went' "$TAP/out"
cd "$BUILD/.." || exit 1
ok "also from the directory above the build" timeout -k 5 100 "$LOCKSTEP" demo --ranks 2 --steps 12 --step-ms 20 --fault none
ok "where it is short" sh -c "$(tail -n 1 "$TAP/out")"
done_testing
