#!/bin/sh
# One launcher on each node, here several on one machine: they start, restart and end together; a spare takes the place of a
# lost node; two sets of ranks never run at the same time, whoever is cut off, stopped or killed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
. "$SOURCE/test/t/nodes.sh"

nodes_begin

# Without a token nobody joins anything.
LOCKSTEP_TOKEN_FILE=$TAP/no-token exits 2 "a launcher without a token is refused at once" timeout 20 "$LOCKSTEP" run --name none --nnodes 2 -n 1 -- true
has "with the name of the file" "token for .*no-token: No such file" "$TAP/err"

# Two nodes from start to end.
launch plain n1 2 2 200
launch plain n2 2 2 200
await ended plain n1 n2
is "two nodes end" "$(cat "$TAP/plain/n1.status" "$TAP/plain/n2.status" | tr '\n' ' ')" '0 0 '
has "the first has ranks 0 and 1" 'ranks 0 to 1 of 4 on n1' "$TAP/plain/n1.err"
has "the second ranks 2 and 3" 'ranks 2 to 3 of 4 on n2' "$TAP/plain/n2.err"
whole plain
want=$(digest plain)
"$LOCKSTEP" why --json plain >"$TAP/out" 2>"$TAP/err"
is "all ranks are observed as one run" "$(number ranks_seen)" 4
[ $tap_failed = 0 ] || show_run plain

# A rank is killed: all ranks of both nodes are restarted, from the newest checkpoint.
launch killed n1 2 2 200
launch killed n2 2 2 200
await steps_beyond killed 1
launch killed n3 2 2 200
await grep -q joined "$TAP/killed/n3.err"
kill -TERM "$(launcher killed n3)"
await ended killed n3
is "a spare that is told to end does" "$(cat "$TAP/killed/n3.status")" 143
await saved killed 40
kill -9 "$(cat "$TAP"/killed/pid.0.3.n2)"
await ended killed n1 n2
is "after a rank was killed, both nodes end" "$(cat "$TAP/killed/n1.status" "$TAP/killed/n2.status" | tr '\n' ' ')" '0 0 '
has "the node without a fault started again, too" 'attempt 1: ranks 0 to 1' "$TAP/killed/n1.err"
has "from a checkpoint" 'restored from checkpoint of step' "$TAP/killed/n1.out"
is "with the result of an uninterrupted run" "$(digest killed)" "$want"
whole killed
[ $tap_failed = 0 ] || show_run killed

# Node n1 is lost with launcher and keeper: the first node of the run, where MASTER_ADDR is.  A third launcher has waited.
launch lost n1 2 2 450
launch lost n2 2 2 450
await steps_beyond lost 1
launch lost n3 2 2 450
await grep -q joined "$TAP/lost/n3.err"
await saved lost 40
kill -9 "$(launcher lost n1)" "$(keeper lost n1)"
# A node is cut off: nothing goes from its launcher to the controller, or back, and its ranks still run.
launch cut n1 2 2 450
launch cut n2 2 2 450
await steps_beyond cut 1
launch cut n3 2 2 450
await grep -q joined "$TAP/cut/n3.err"
await saved cut 40
cut_off="$(child cut n2 send) $(child cut n2 orders)"
kill -STOP $cut_off
await ended lost n2 n3
is "a spare takes the place of a lost first node" "$(cat "$TAP/lost/n2.status" "$TAP/lost/n3.status" | tr '\n' ' ')" '0 0 '
has "with its ranks" 'attempt [1-9]: ranks 0 to 1 of 4 on n3' "$TAP/lost/n3.err"
has "the other node keeps its own" 'attempt [1-9]: ranks 2 to 3 of 4 on n2' "$TAP/lost/n2.err"
has "and says why it starts again" 'node n1 is lost: no sign of life for 6 s; the ranks start again' "$TAP/lost/n2.err"
has "they go on from a checkpoint" 'restored from checkpoint of step' "$TAP/lost/n3.out"
whole lost
"$LOCKSTEP" why lost >"$TAP/out" 2>"$TAP/err"
has "why names the lost node as the reason of the restart" 'attempt 0 ended: node n1 is lost' "$TAP/out"
has "and has the parts of the restart" 'stop [0-9.]+, start [0-9.]+, init and load' "$TAP/out"
has "and the time that the places of the lost node were down" '^  down ' "$TAP/out"
[ $tap_failed = 0 ] || show_run lost
await ended cut n1 n3
is "a spare takes the place of a node that is cut off" "$(cat "$TAP/cut/n1.status" "$TAP/cut/n3.status" | tr '\n' ' ')" '0 0 '
has "which has ended its ranks" 'the controller has not answered for .*ending the ranks' "$TAP/cut/n2.err"
kill -CONT $cut_off
await ended cut n2
is "and hears of the end when it is back" "$(cat "$TAP/cut/n2.status")" 0
whole cut
is "both end with the same result" "$(digest cut)" "$(digest lost)"
[ $tap_failed = 0 ] || show_run cut

# A launcher is stopped: its keeper ends the ranks.  No spare: the others end with the reason.
launch stopped n1 2 1 5000 --join-wait 3s
launch stopped n2 2 1 5000 --join-wait 3s
launch fewer n1 1:2 1 5000
launch fewer n2 1:2 1 5000
await steps_beyond stopped 20
await steps_beyond fewer 20
stopped=$(launcher stopped n2)
kill -STOP "$stopped"
kill -9 "$(launcher fewer n1)" "$(keeper fewer n1)"
gone() { ! kill -0 "$(cat "$TAP/stopped/pid.0.1.n2")" 2>/dev/null; }
await gone
tap_result $? "the ranks of a stopped launcher end"
await ended stopped n1
is "without a spare the run ends" "$(cat "$TAP/stopped/n1.status")" 1
has "with the reason" '1 node is left, at least 2 needed; after: node n2 is lost' "$TAP/stopped/n1.err"
kill -CONT "$stopped"
await ended stopped n2
is "the stopped one ends as well" "$(cat "$TAP/stopped/n2.status")" 1
exits 1 "why knows the reason of the end" "$LOCKSTEP" why stopped
has "and prints it" '^it ended with status 1: 1 node is left, at least 2 needed; after: node n2 is lost' "$TAP/out"
lacks "instead of cannot tell" 'cannot tell|nothing is wrong' "$TAP/out"
whole stopped
[ $tap_failed = 0 ] || show_run stopped
await grep -q 'attempt 1: ranks 0 to 0 of 1 on n2' "$TAP/fewer/n2.err"
tap_result $? "with fewer nodes allowed it goes on without a spare"
alone=$(steps_now fewer)
await steps_beyond fewer $((alone + 20))
tap_result $? "and trains"

# The controller is killed and started again: nobody notices.
kill -9 $control
wait $control 2>/dev/null
alone=$(steps_now fewer)
site_again
await steps_beyond fewer $((alone + 50))
is "a controller that is started again stops nobody" "$(grep -c '^lockstep run: attempt' "$TAP/fewer/n2.err")" 2
kill -TERM "$(launcher fewer n2)"
await ended fewer n2
is "a launcher that is told to end does" "$(cat "$TAP/fewer/n2.status")" 143
"$LOCKSTEP" ps >"$TAP/out" 2>"$TAP/err"
has "and the last one reports the end of the run" '^fewer +(ended|failed|stopped|exit)' "$TAP/out"
whole fewer
[ $tap_failed = 0 ] || show_run fewer
site_stop
done_testing
