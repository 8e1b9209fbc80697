#!/bin/sh
# A test that judges real time fails at once on an idle machine; on one that others keep busy it is repeated, and then
# skipped with the reason.  What the test itself does, and its daemons, is not counted as others'.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

busy=
leave()
{
    # shellcheck disable=SC2086 # process ids
    [ -z "$busy" ] || kill $busy
    rm -rf "$TAP"
}
trap leave EXIT

orphan() # ENVIRONMENT COMMAND...: with init as its parent; its process id is in $orphan
{
    rm -f "$TAP/orphan"
    (env -i PATH="$PATH" "$@" >/dev/null 2>&1 & echo $! >"$TAP/orphan.new" && mv "$TAP/orphan.new" "$TAP/orphan")
    orphan=$(cat "$TAP/orphan")
    busy="$busy $orphan"
}

cat >"$TAP/inner" <<'END'
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"
trial()
{
    [ "${LATE:-0}" != 0 ] || timed_result "$1" "in time"
    [ "${LATE:-0}" = 0 ] || timed_ok "in time" 2 "$(command -v sleep)" 60
    is "right" "$2" right
    until [ -s "$TAP/load" ]; do sleep 0.1; done # the first second was measured
}
timed trial "$@"
ok "what follows is counted on" true
done_testing
END
inner() # STATUS NAME ARGUMENT...
{
    inner_status=$1 inner_name=$2
    shift 2
    exits "$inner_status" "$inner_name" sh "$TAP/inner" "$@"
}

# With this limit no machine counts as busy.
LOAD_LIMIT=1000
export LOAD_LIMIT
inner 1 "late on an idle machine is a failure" 1 right
has "which is shown" '^not ok 1 - in time$' "$TAP/out"
has "in its place" '^ok 3 - what follows is counted on$' "$TAP/out"
lacks "at once" '^# trial' "$TAP/out"
LATE=1 inner 1 "so is a program that does not end in time" 0 right
has "which is shown, too" '^not ok 1 - in time$' "$TAP/out"
inner 0 "what is in time passes" 0 right
has "as it is" '^ok 1 - in time$' "$TAP/out"

for cpu in $(seq "$(nproc)"); do
    orphan sh -c "while :; do :; done # $cpu"
done
LOAD_LIMIT=25
inner 0 "late while others take all processors is no failure" 1 right
has "nor passed: it is skipped" '^ok 1 - in time # SKIP others took [0-9]+ % of this machine.s processors, limit 25 %; trial 3$' \
    "$TAP/out"
is "after three trials" "$(grep -c '^# trial [12] of' "$TAP/out")" 2
inner 1 "what is wrong is wrong on a busy machine, too" 1 wrong
has "and shown" '^not ok 2 - right$' "$TAP/out"
lacks "at once, too" '^# trial' "$TAP/out"
LOAD_TRIALS=1 LATE=1 inner 0 "a program that does not end in time is skipped" 0 right
has "with the reason" '^ok 1 - in time # SKIP others took' "$TAP/out"
inner 0 "what is in time passes there" 0 right
has "and is not skipped" '^ok 1 - in time$' "$TAP/out"

# Who belongs to the test.
sleep 100 & # a child
child=$!
orphan TEST="$TAP/state" sleep 100
daemon=$orphan
orphan sleep 100
stranger=$orphan
busy="$busy $child"
python3 - $$ "$TAP" $child "$daemon" "$stranger" >"$TAP/out" 2>&1 <<'END'
import os, sys
sys.path.insert(0, os.path.join(os.environ["SOURCE"], "test", "t"))
import load
test, folder, *others = sys.argv[1:]
watched = load.Load(int(test), folder)
processes = {pid: load.read_stat(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
processes = {pid: one for pid, one in processes.items() if one}
print([watched.is_ours(int(pid), processes) for pid in others])
END
is "a child and a daemon with the test's folder do, a stranger does not" "$(cat "$TAP/out")" "[True, True, False]"
done_testing
