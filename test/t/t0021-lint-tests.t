#!/bin/sh
# No test sleeps where it could wait for a condition, no two tests have one number, and tools/lint-tests would notice.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

ok "the tests keep to it" "$SOURCE/tools/lint-tests" "$SOURCE"

mkdir -p "$TAP/tree/test/t"
plant() # NAME FILE TEXT: is an offence
{
    printf '%b\n' "$3" >"$TAP/tree/test/t/$2"
    exits 1 "sees $1" "$SOURCE/tools/lint-tests" "$TAP/tree"
    has "and says where" "^test/t/$2:1: sleeps without a reason" "$TAP/out"
    rm "$TAP/tree/test/t/$2"
}

allow() # NAME FILE TEXT
{
    printf '%b\n' "$3" >"$TAP/tree/test/t/$2"
    ok "allows $1" "$SOURCE/tools/lint-tests" "$TAP/tree"
    rm "$TAP/tree/test/t/$2"
}

pause='slee''p'
plant "a pause" t1000-a.t "$pause 1"
plant "one in the middle of a line" t1000-a.t "kill \$control; $pause 0.5; begin"
plant "one in another program" t1000-a.t "sh -c '$pause 2'"
plant "one in Python" p1000-a.py "time.$pause(1)"
plant "one in a helper" help.sh "    $pause \"\$1\""
allow "a pause with its reason" t1000-a.t "$pause 1 # a random moment"
allow "one in Python with its reason" p1000-a.py "time.$pause(1)  # the fault"
allow "a loop that looks again" t1000-a.t "until grep -q x y; do $pause 0.1; done"
allow "a loop of several lines" t1000-a.t "while :; do\n    $pause 0.1\ndone"
allow "a process to look at" t1000-a.t "run -n 2 -- $pause 60"
allow "a program's name for a fault" t1000-a.t "demo --fault host-$pause:ms=3"

touch "$TAP/tree/test/t/t1000-one.t" "$TAP/tree/test/t/t1001-other.t"
ok "allows two numbers" "$SOURCE/tools/lint-tests" "$TAP/tree"
touch "$TAP/tree/test/t/t1000-two.t"
exits 1 "sees a number that two tests have" "$SOURCE/tools/lint-tests" "$TAP/tree"
has "and says which" "^test/t/t1000-two.t: t1000 is the number of t1000-one.t" "$TAP/out"
done_testing
