#!/bin/sh
# Ranks of a job on several nodes fail, hang or are slow; launchers and controllers are killed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 4 --net
jobs_begin ada
ends_well() # WHAT
{
    await job_has_ended
    is "$1 ends well" "$(job_result)" 'exit 0'
    lacks "no two attempts ran at once" . /home/ada/overlap
    decisions
    parts
    [ $tap_failed = 0 ] || show_job
}
on_node_of() # RANK COMMAND...: as root there, with the number of the rank's process last
{
    on_rank=$1
    shift
    in_node "$(node_of_rank "$on_rank")" "$@" "$(pid_of_rank "$on_rank")"
}
restarted() { grep -q 'attempt [1-9][0-9]*: ranks' /home/ada/job.out; }

train ada 400 "-n 1 --spares 1 --max-restarts 5" -N4
await trained 60
on_node_of 1 kill -KILL
ends_well "a job of which a rank was killed"
has "on the same nodes" 'decision: start .*; after: rank [012] on node n[0-9] ended' "$TAP/out"

train ada 400 "-n 1 --max-restarts 5 --on-hang restart" -N3
await trained 60
on_node_of 1 kill -STOP
await restarted
tap_result $? "a rank that hangs is restarted"
ends_well "the job"
has "because of a verdict" 'decision: restart because of ha-' "$TAP/out"

# A rank on a slow node: with --act a spare takes its place.
cat >/home/ada/swap.yaml <<'END2'
slow-node:
  kind: straggler
  confidence: 0.6
  action: swap
  reason: the test wants it
END2
chown ada: /home/ada/swap.yaml
train ada 3000 "-n 1 --spares 1 --max-restarts 5 --act --policy swap.yaml" -N4
await trained 100
slow=$(node_of_rank 1)
# Stopped for most of the time, as by a neighbour that takes its CPU.
in_node "$slow" sh -c 'while kill -STOP $0; do sleep 0.06; kill -CONT $0; sleep 0.04; done' "$(pid_of_rank 1)" 2>/dev/null &
# On a machine that others use a node may be slow of itself, and be the one that is replaced.
await grep -q 'attempt [1-9][0-9]*: ranks [0-2] to [0-2] of 3 on n[0-9]' /home/ada/job.out
tap_result $? "a spare takes the ranks of a slow node, with --act"
decisions
has "because of a verdict" 'decision: swap because of st-' "$TAP/out"
parts
[ $tap_failed = 0 ] || { show_job; cat "$TAP/out" >&2; }
as ada scancel "$job"
await job_has_ended
lacks "no two attempts ran at once" . /home/ada/overlap

# The controller of the run is killed right after a rank, while the attempt is being stopped.
await nodes_are idle 4
train ada 400 "-n 1 --spares 1 --max-restarts 5" -N4
await trained 60
on_node_of 1 kill -KILL
pkill -KILL -P "$(pgrep -f 'lockstep run .*-n 1' | tr '\n' , | sed 's/,$//')" -f 'lockstep control'
ends_well "a job whose controller was killed in the middle of a restart"
done_testing
