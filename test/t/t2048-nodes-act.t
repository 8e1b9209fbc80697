#!/bin/sh
# One launcher on each node, and a policy that acts: a slow node is swapped out, ranks that hang are restarted elsewhere, a step that fails
# on every node ends the run, actions that do not help stop.  Two nodes are lost at once; a spare comes late; the controller is
# killed while an action is under way.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
. "$SOURCE/test/t/nodes.sh"
. "$SOURCE/test/t/load.sh"

printf 'judge:\n  hang.least-limit: 2\n' >"$TAP/settings.yaml"
LOCKSTEP_CONFIG=$TAP/settings.yaml
export LOCKSTEP_CONFIG
nodes_begin
plan() # FAULT: a file for the trainer
{
    printf 'lockstep-plan 1\nnodes 1\nfault %s\n' "$1" >"$TAP/plan.${1%%:*}"
}
decided() # RUN ACTION STATE TEXT: some decision
{
    "$LOCKSTEP" why "$1" >"$TAP/why.$1" 2>/dev/null
    grep -Eq "^decision: $2 .*\($3\): .*$4" "$TAP/why.$1"
}
attempts() # RUN: how many were started
{
    cat "$TAP/$1"/*.err | sed -n 's/.*: attempt \([0-9]*\): ranks .*/\1/p' | sort -un | wc -l
}
parts() # RUN: of its restarts, for people
{
    "$LOCKSTEP" why "$1" | sed -n "s/^  first new step/# $1: first new step/p"
}

# A device of n2 is slow, and only there.
slow_node()
{
    plan gpu-slow:rank=1,factor=2,step=20
    hook slow <<END
until grep -q joined "$TAP/slow/n3.err"; do sleep 0.05; done # a spare is there
[ "\$LOCKSTEP_NODE" != n2 ] || set -- "\$@" --plan "$TAP/plan.gpu-slow"
END
    for node in n1 n2; do launch slow $node 2 1 600 --act --lease 4s; done
    await grep -q ' attempt 0: ' "$TAP/slow/n1.err"
    launch slow n3 2 1 600 --act --lease 4s
    await ended slow n1 n3
    is "a run with a slow node ends well" "$(cat "$TAP/slow/n1.status" "$TAP/slow/n3.status" | tr '\n' ' ')" '0 0 '
    decided slow swap done 'slow-hardware: pays back after [0-9]+ s'
    timed_result $? "its slow node is swapped for the spare" || show_run slow
    has "the spare has its ranks" 'attempt 1: ranks 1 to 1 of 2 on n3' "$TAP/slow/n3.err"
    is "once" "$(attempts slow)" 2
    await ended slow n2
    whole slow
    parts slow
}

# A device of n2 hangs whenever a rank comes there.
hung_node()
{
    plan gpu-hang:rank=1,step=15
    hook hung <<END
until grep -q joined "$TAP/hung/n3.err"; do sleep 0.05; done # a spare is there
set -- "\$@" --restart 0 --timeout 60s
[ "\$LOCKSTEP_NODE" != n2 ] || set -- "\$@" --plan "$TAP/plan.gpu-hang"
END
    for node in n1 n2; do launch hung $node 2 1 100 --act --lease 4s; done
    await grep -q ' attempt 0: ' "$TAP/hung/n1.err"
    launch hung n3 2 1 100 --act --lease 4s
    await ended hung n1 n3
    is "a run of which a rank hangs ends well" "$(cat "$TAP/hung/n1.status" "$TAP/hung/n3.status" | tr '\n' ' ')" '0 0 '
    decided hung swap done 'hang-on-bad-hardware'
    tap_result $? "its node is swapped for the spare"
    await ended hung n2
    whole hung
    [ $tap_failed = 0 ] || show_run hung
    parts hung
}

# One step fails on three nodes in turn.
poison()
{
    for rank in 0 1 2; do
        plan "exit:rank=$rank,step=15"
        mv "$TAP/plan.exit" "$TAP/plan.exit.$rank"
    done
    hook poison <<END
set -- "\$@" --plan "$TAP/plan.exit.\$((LOCKSTEP_RESTART % 3))" --restart 0
END
    sed 's/^  crash-loop: 3 .*/  crash-loop: 6/' "$SOURCE/dist/policy.yaml" >"$TAP/poison.yaml"
    for node in n1 n2 n3; do launch poison $node 3 1 100 --act --lease 4s --policy "$TAP/poison.yaml"; done
    await ended poison n1 n2 n3
    is "a step that fails on each node ends the run" "$(cat "$TAP"/poison/n?.status | sort -u)" 1
    has "with the reason" 'poison step: step [0-9]+ failed 3 times on 3 different nodes; the job is at fault' "$TAP/poison/n1.err"
    [ "$(attempts poison)" -lt 6 ]
    tap_result $? "after few attempts"
    exits 1 "why says so, too" "$LOCKSTEP" why poison
    has "as the reason of the end" '^it ended with status 1: poison step: ' "$TAP/out"
    whole poison
    [ $tap_failed = 0 ] || show_run poison
}

# Ranks hang on all nodes: actions do not help.
breaker()
{
    sed 's/^  breaker: 3 .*/  breaker: 2/; s/^  cool-down: .*/  cool-down: 1s/; s/^  restarts-per-cause: .*/  restarts-per-cause: 99/' \
        "$SOURCE/dist/policy.yaml" >"$TAP/policy.yaml"
    plan stuck-code:rank=0,step=15
    hook all <<END
set -- "\$@" --plan "$TAP/plan.stuck-code" --restart 0 --timeout 60s
END
    for node in n1 n2; do launch all $node 2 1 100 --act --lease 4s --policy "$TAP/policy.yaml"; done
    await decided all restart 'dry-run' 'the last 2 actions did not help; a person must look at it'
    tap_result $? "after two restarts that did not help no further action is taken"
    is "and none was" "$(attempts all)" 3
    kill -TERM "$(launcher all n1)" "$(launcher all n2)"
    await ended all n1 n2
    whole all
    [ $tap_failed = 0 ] || show_run all
}

# Both nodes are lost; two others wait.
two_lost()
{
    for node in n1 n2; do launch two $node 2 1 200 --lease 4s; done
    await steps_beyond two 1
    for node in n3 n4; do launch two $node 2 1 200 --lease 4s; done
    await grep -q joined "$TAP/two/n3.err"
    await grep -q joined "$TAP/two/n4.err"
    await saved two 40
    kill -9 "$(launcher two n1)" "$(keeper two n1)" "$(launcher two n2)" "$(keeper two n2)"
    await ended two n3 n4
    is "two spares take the places of two lost nodes" "$(cat "$TAP/two/n3.status" "$TAP/two/n4.status" | tr '\n' ' ')" '0 0 '
    has "from a checkpoint" 'restored from checkpoint of step' "$TAP/two/n3.out"
    whole two
    [ $tap_failed = 0 ] || show_run two
    parts two
}

# A node is lost, and the spare comes when the run waits already.  The controller is killed when it has stopped the ranks, and again when the
# next attempt has begun.
late_spare()
{
    for node in n1 n2; do launch late $node 2 1 200 --lease 4s; done
    await saved late 40
    kill -9 "$(launcher late n2)" "$(keeper late n2)"
    await decided late stop '[a-z]*' '(rank 0 on node n1 ended|node n2 is lost)'
    kill -9 $control
    wait $control 2>/dev/null
    site_again
    launch late n3 2 1 200 --lease 4s
    await grep -q ' attempt 1: ' "$TAP/late/n3.err"
    tap_result $? "a spare that comes late takes the place of a lost node, although the controller was killed meanwhile"
    kill -9 $control
    wait $control 2>/dev/null
    site_again
    await ended late n1 n3
    is "and the run ends well" "$(cat "$TAP/late/n1.status" "$TAP/late/n3.status" | tr '\n' ' ')" '0 0 '
    is "what was decided is done once" "$(attempts late)" 2
    has "from a checkpoint" 'restored from checkpoint of step' "$TAP/late/n1.out"
    whole late
    [ $tap_failed = 0 ] || show_run late
    parts late
}

for scene in ${NODES_SCENES:-poison hung_node breaker two_lost late_spare}; do $scene; done
[ -n "${NODES_SCENES:-}" ] || timed slow_node
site_stop
done_testing
