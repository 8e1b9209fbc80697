#!/bin/sh
# A user cannot take over the agents that run with his rights, at any moment of their lives; and when he kills them
# again and again, they are started ever later.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

control_start
as $ada "$hostile" trace >"$TAP/trace" 2>&1 &
pids="$pids $!"
daemon_start
train $ada one 400
train $ada two 400
await has_steps one.u$ada 5
tap_result $? "a run is watched while its user attacks the agent"
await has_steps two.u$ada 5
tap_result $? "another one, too"
await grep -q sight "$TAP/trace"
tap_result $? "the attacker has seen an agent"
is "and could neither trace nor read it" "$(grep -v sight "$TAP/trace" | sort | uniq -c | head)" ""
for i in 1 2 3; do # agents are born again and again, under attack
    pid=$(agents $ada | head -n 1)
    as $ada kill -9 "$pid"
    born() { [ -n "$(agents $ada | grep -vx "$pid" | head -n 1)" ] && ! kill -0 "$pid" 2>/dev/null; }
    await born
done
await has_steps one.u$ada 20
is "no agent was traced, and nothing of it could be read" "$(grep -v sight "$TAP/trace" | sort | uniq -c | head)" ""
pid=$(agents $ada | head -n 1)
is "it writes no core dumps" "$(awk '/Max core file size/ { print $6 }' "/proc/$pid/limits")" 0
bounded() { grep "$1" "/proc/$pid/limits" | grep -qv unlimited; }
for limit in 'Max file size' 'Max address space' 'Max open files'; do
    bounded "$limit"
    tap_result $? "$limit is bounded"
done
is "it has no capability" "$(awk '/^Cap(Prm|Eff|Inh|Amb):/ { print $2 }' "/proc/$pid/status" | sort -u)" 0000000000000000
is "and only its user's id" "$(awk '/^[UG]id:/ { print $2, $3, $4, $5 }' "/proc/$pid/status" | sort -u)" "$ada $ada $ada $ada"
is "and no groups" "$(awk '/^Groups:/ { print NF }' "/proc/$pid/status")" 1
# One that dies at once is started ever later.
run=$(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n 's/^--run=//p')
kills=0
while ! grep -q "agent of run $run ended .*restarting it in 4 s" "$TAP/daemon.err" && [ $kills -lt 8 ]; do
    again() { pid=$(pgrep -P "$daemon" -f -- "--run=$run " | head -n 1); [ -n "$pid" ]; }
    await again || break
    as $ada kill -9 "$pid"
    kills=$((kills + 1))
    await ended "$pid"
done
has "an agent that is killed at once is started ever later" "agent of run $run ended .*restarting it in 4 s" "$TAP/daemon.err"
daemon_stop
is "the daemon ends in order" $? 0
done_testing
