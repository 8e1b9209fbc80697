#!/bin/sh
# A node whose launcher, keeper and ranks have ended is replaced at once, though its lease is much longer than this test; one of which a
# process lives on is not.  The controller is the job's own.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/nodes.sh"

unset LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE
export LOCKSTEP_JOB_KEY=7d9c0f6be1a24c1e8f33
trap 'leave' EXIT
leave()
{
    for node in n1 n2 n3; do
        for run in ended lives waits; do
            pid=$(launcher $run $node 2>/dev/null)
            [ -z "$pid" ] || [ -s "$TAP/$run/$node.status" ] || kill -TERM "$pid" 2>/dev/null
        done
    done
    for file in "$TAP"/*/child; do [ ! -s "$file" ] || kill -9 "$(cat "$file")" 2>/dev/null; done
    wait
    rm -rf "$TAP"
}
free_port()
{
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
command -v python3 >/dev/null || skip_all "python3 finds a free port"
trust=--trust-ends
start() # RUN: two nodes and a spare
{
    port=$(free_port)
    for node in n1 n2 n3; do
        [ $node = n1 ] || await grep -q joined "$TAP/$1/n1.err"
        [ $node != n3 ] || await steps_beyond "$1" 1
        launch "$1" $node 2 1 600 --lease 100s $trust --rdzv-endpoint 127.0.0.1:"$port"
    done
    await grep -q joined "$TAP/$1/n3.err"
    await saved "$1" 40
}

start ended
kill -9 "$(launcher ended n2)" "$(keeper ended n2)"
await grep -q 'attempt 1: ranks 1 to 1 of 2 on n3' "$TAP/ended/n3.err"
tap_result $? "a spare has the ranks of a node that has ended, long before its lease is over"
await grep -q 'node n2 is lost: its launcher and ranks have ended' "$TAP/ended/n1.err"
tap_result $? "the others know why"
await ended ended n1 n3
is "the run ends well" "$(cat "$TAP/ended/n1.status" "$TAP/ended/n3.status" | tr '\n' ' ')" '0 0 '
export LOCKSTEP_STATE=$TAP/ended/n1
whole ended
"$LOCKSTEP" why ended >"$TAP/out" 2>"$TAP/err"
has "why names the lost node, and not who noticed" '^crash: rank 1 \(node n2\) failed first .*was lost with its node: all its processes have ended' "$TAP/out"
has "who noticed is named as that" 'rank 0 exited with 1' "$TAP/out"
[ $tap_failed = 0 ] || show_run ended

# Launcher, keeper and rank are killed, but not a process that the rank left behind and that could still write.
hook lives <<'END'
[ "$RANK.$LOCKSTEP_RESTART" != 1.0 ] || setsid sh -c 'echo $$ >"$1"; exec sleep 90' sh "$dir/child" &
END
start lives
kill -9 "$(launcher lives n2)" "$(keeper lives n2)"
sleep 3 # nothing shall happen meanwhile
lacks "while a process of a rank lives nobody takes its place" 'attempt 1' "$TAP/lives/n3.err"
kill -9 "$(cat "$TAP/lives/child")"
await grep -q 'attempt 1: ranks 1 to 1 of 2 on n3' "$TAP/lives/n3.err"
tap_result $? "when that has ended, too, the spare does"
await ended lives n1 n3
is "and the run ends well" "$(cat "$TAP/lives/n1.status" "$TAP/lives/n3.status" | tr '\n' ' ')" '0 0 '
export LOCKSTEP_STATE=$TAP/lives/n1
whole lives
[ $tap_failed = 0 ] || show_run lives

# Who does not ask for it has no such socket: a process that closed its descriptors could live on.
trust=
start waits
kill -9 "$(launcher waits n2)" "$(keeper waits n2)"
sleep 3 # nothing shall happen meanwhile
lacks "without the option the lease decides" 'attempt 1' "$TAP/waits/n3.err"
done_testing
