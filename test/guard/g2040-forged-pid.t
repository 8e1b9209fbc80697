#!/bin/sh
# A ring that names another user's process brings nothing of it, and does not stop it, also where root reads the ring.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

mkdir -m 700 "$TAP/run"
as $ada mkdir -m 700 "$root/rings"
as $bob sleep 1000 &
pids="$pids $!"
as $ada sleep 1000 &
pids="$pids $!"
process_of() { pid=$(ps -eo pid=,uid=,comm= | awk -v u="$1" '$2 == u && $3 == "sleep" { print $1 }'); [ -n "$pid" ]; }
await process_of $bob
victim=$pid
await process_of $ada
own=$pid
as $ada "$hostile" ring "$root/rings/rank-0.0.ring" 0 "$victim"
as $ada "$hostile" ring "$root/rings/rank-1.0.ring" 1 "$own"
"$hostile" seen "$victim" >"$TAP/seen" &
pids="$pids $!"
"$LOCKSTEP" agent --run-dir "$TAP/run" --rings "$root/rings" --node n1 2>"$TAP/agent.err" &
daemon=$!
stack_of() { "$BUILD/test/guard/stacks" "$TAP/run/spool/agent-n1.lsf" >"$TAP/out" 2>"$TAP/err"; grep -q "^rank $1:" "$TAP/out"; }
await stack_of 1
tap_result $? "the stack of the user's own process is read"
has "with what it does" "^rank 1: .*(nanosleep|hrtimer)" "$TAP/out"
lacks "nothing is read of the other's" "^rank 0: .*[a-z]" "$TAP/out"
is "which was neither traced nor stopped" "$(cat "$TAP/seen")" ""
has "the agent says why" "rank 0: its ring names process $victim, which belongs to another user" "$TAP/agent.err"
kill -TERM $daemon
wait $daemon
is "it ends in order" $? 0
done_testing
