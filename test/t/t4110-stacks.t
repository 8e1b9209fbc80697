#!/bin/sh
# lockstep stacks: every rank's stack now, equal ones together, and why one cannot be read.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
trap 'kill $jobs 2>/dev/null; rm -rf "$TAP"' EXIT
jobs=

stacks() { "$LOCKSTEP" stacks "$@"; }
shows() # TEXT ARGUMENT...
{
    tap_text=$1
    shift
    stacks "$@" | grep -q -- "$tap_text"
}

exits 3 "without a live run there is nothing to look at" stacks
has "which is said" '^lockstep stacks: no run is running here' "$TAP/err"
exits 2 "a run that is not there is bad usage" stacks nosuch
exits 2 "so is a second operand" stacks one two

# ---- a rank that is stuck in its own code ----

"$LOCKSTEP" demo --ranks 4 --step-ms 20 --fault stuck-code:rank=2,step=3 --name "stuck-$$" \
    >"$TAP/demo" 2>&1 &
jobs=$!
await shows trainer_stuck_phase --rank 2
tap_result $? "the function that never comes back is named"
ok "all ranks, of the newest live run" stacks
has "are counted" "^run stuck-$$: 4 ranks on this node" "$TAP/out"
has "the stuck one stands alone" '^rank 2 \(pid [0-9]+, state [RS]\):$' "$TAP/out"
is "its function is in no other group" "$(grep -c trainer_stuck_phase "$TAP/out")" 1
ok "as JSON" stacks --json "stuck-$$"
is "with every rank" "$(grep -c '"rank":' "$TAP/out")" 4
has "and its frames" '"trainer_stuck_phase"' "$TAP/out"
ok "only one rank" stacks --json --rank 2
is "is one" "$(grep -c '"rank":' "$TAP/out")" 1
has "that could be read" '"not_read":null' "$TAP/out"
exits 3 "a rank that the run does not have" stacks --rank 9
has "has no process" 'rank 9 has no process on this node' "$TAP/err"
ok "no rank is stopped where nobody wants it" stacks --no-native --rank 2
lacks "so there is no native stack" 'native stack' "$TAP/out"
kill "$jobs"
wait "$jobs"
jobs=
exits 3 "a run that has ended has no ranks" stacks "stuck-$$"
has "which is said" "run stuck-$$: no rank has a process on this node; the run has ended" "$TAP/err"

# ---- a Python program, which has no ring ----

if ! command -v python3 >/dev/null; then
    skip "Python" "no python3 here"
    done_testing
fi
cat >"$TAP/train.py" <<'END'
import os
import time


def wait_for_a_friend():
    time.sleep(600)


def wait_alone():
    time.sleep(600)


if os.environ.get("RANK") == "3":
    wait_alone()
else:
    wait_for_a_friend()
END
# Ranks begin and reach that line at different times; until all have, some are elsewhere.
"$LOCKSTEP" run --quiet -n 4 --name "python-$$" -- python3 "$TAP/train.py" >/dev/null 2>&1 &
jobs=$!
arrived()
{
    for rank in 0 1 2; do
        shows wait_for_a_friend --no-native --rank $rank "python-$$" || return 1
    done
    shows wait_alone --no-native --rank 3 "python-$$" && shows '^ranks 0-2 (state S):$' --no-native "python-$$"
}
await arrived
tap_result $? "ranks with equal stacks are shown together"
ok "of a Python program" stacks --no-native "python-$$"
has "the function and its line are named" "^    wait_for_a_friend \(.*/train.py:6\)$" "$TAP/out"
has "the rank that is elsewhere is shown by itself" '^rank 3 \(pid' "$TAP/out"
has "with its own function" "^    wait_alone \(.*/train.py:10\)$" "$TAP/out"

pid=$(stacks --json --rank 1 "python-$$" | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
kill -STOP "$pid"
await shows 'state T' --rank 1 "python-$$"
ok "a stopped rank can still be read" stacks --rank 1 "python-$$"
has "by its Python stack" 'wait_for_a_friend' "$TAP/out"
has "what cannot be is named with the reason" \
    'not read: native stack: not read from a process in state T' "$TAP/out"
lacks "no permission is said to be missing" 'permission' "$TAP/err"
kill -CONT "$pid"
kill "$jobs"
wait "$jobs"

"$LOCKSTEP" run --quiet --name "alone-$$" -- python3 "$TAP/train.py" >/dev/null 2>&1 &
jobs=$!
await shows wait_for_a_friend "alone-$$"
tap_result $? "a command that is no rank is found, too"
kill "$jobs"
wait "$jobs"

# ---- a job that lockstep did not start: its environment names the rings ----

cat >"$TAP/own.py" <<'END'
import time

import lockstep


def think():
    time.sleep(600)


with lockstep.step():
    think()
END
rings=/dev/shm/lockstep-$(id -u) # as README.md says it
mkdir -p -m 700 "$rings"
env PYTHONPATH="$BUILD/bindings/python/lockstep/site" LOCKSTEP_RUN="other-$$" LOCKSTEP_DIR="$rings/other-$$" \
    RANK=0 WORLD_SIZE=1 python3 "$TAP/own.py" &
jobs=$!
await shows think "other-$$"
tap_result $? "a job of another launcher is found by the name of its rings"
ok "without a run of ours" stacks "other-$$"
lacks "and without a complaint" . "$TAP/err"
kill -KILL "$jobs"
wait "$jobs" 2>/dev/null
exits 3 "a rank whose process is gone cannot be read" stacks "other-$$"
has "which is the reason" '^  not read: its process is gone$' "$TAP/out"
exits 3 "the same as JSON" stacks --json "other-$$"
has "has no pid" '"pid":null' "$TAP/out"
rm -rf "$rings/other-$$"
jobs=
done_testing
