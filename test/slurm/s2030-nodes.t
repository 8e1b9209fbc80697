#!/bin/sh
# Nodes of a job are lost, drained, cut off, or lose only their slurmd.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 6 --net ${HOMES:-}
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
replaced() { grep -q "attempt [1-9][0-9]*: ranks $1 to $1 of" /home/ada/job.out; }

# Two nodes at once; another user's job beside it.
other=$(as bob sbatch --parsable -N1 -w n6 -o /dev/null --wrap 'exec sleep 1000')
await job_is "$other" RUNNING
train ada 500 "-n 1 --spares 2 --max-restarts 5" -N5
await trained 60
first=$(node_of_rank 1) second=$(node_of_rank 2)
node_crash "$first"
node_crash "$second"
await replaced 1 && await replaced 2
tap_result $? "two spares take the ranks of two lost nodes"
ends_well "a job that lost two nodes"
has "its decisions say why" "decision: start .*node n[0-9] is lost" "$TAP/out"
is "the other user's job still runs" "$(job_state "$other")" RUNNING
as bob scancel "$other"
node_boot "$first"
node_boot "$second"
await nodes_are idle 6
tap_result $? "all nodes are free again"

# A node is drained meanwhile: Slurm lets the job run, and so do we.
train ada 300 "-n 1 --spares 1 --max-restarts 5" -N3
await trained 60
drained=$(node_of_rank 1)
scontrol update "NodeName=$drained" State=DRAIN Reason=maintenance
await node_is "$drained" draining
ends_well "a job on a node that is drained"
lacks "nothing was restarted" 'attempt 1' /home/ada/job.out
await node_is "$drained" drained
tap_result $? "the node stays drained"
scontrol update "NodeName=$drained" State=RESUME

# slurmd alone is killed: its tasks go on, also when Slurm gives the node up.
await nodes_are idle 6
train ada 1200 "-n 1 --spares 1 --max-restarts 5" -N3
await trained 60
victim=$(node_of_rank 1)
slurmd_kill "$victim"
await node_is "$victim" 'down*' || await node_is "$victim" down
tap_result $? "Slurm gives up a node without slurmd"
lacks "its ranks go on" 'attempt 1' /home/ada/job.out
ends_well "the job"
slurmd_start "$victim"

# The link of a node is cut, and healed later.
await nodes_are idle 6
train ada 600 "-n 1 --spares 1 --max-restarts 5" -N3
await trained 60
victim=$(node_of_rank 1)
link_cut "$victim"
await replaced 1
tap_result $? "a spare takes the ranks of a node that is cut off"
link_heal "$victim"
ends_well "the job"
await nodes_are idle 6

# The first node, with the batch script, srun and the controller.
train ada 600 "-n 1 --spares 1 --max-restarts 5" -N4
await trained 60
victim=$(timeout 5 scontrol show job "$job" | sed -n 's/^ *BatchHost=//p')
node_crash "$victim"
# What the others print is lost with srun, but not the files of the run.
moved() { grep -q 'step 5[0-9][0-9] ' /home/ada/.local/state/lockstep/runs/job-"$job"/nodes/n[1-6]/out/rank-0.log; }
await moved
tap_result $? "the others go on without the first node"
await job_has_ended
is "and end the job, which has no batch script any more" "$(job_state "$job")" CANCELLED
lacks "no two attempts ran at once" . /home/ada/overlap
[ $tap_failed = 0 ] || { show_job; tail -n 20 /home/ada/.local/state/lockstep/runs/job-"$job"/nodes/*/*.log >&2; }
done_testing
