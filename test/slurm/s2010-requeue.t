#!/bin/sh
# A job without a spare loses a node.  It requeues itself without that node, is not held for two minutes, and goes on from its
# newest checkpoint.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 4 --net
jobs_begin ada
train ada 200 "-n 1 --max-restarts 5 --requeues 2 --join-wait 5s" -N3 --requeue
await trained 60
tap_result $? "a batch job trains on three nodes"
victim=$(node_of_rank 1)
crashed=$(date +%s)
node_crash "$victim"
restarted() { [ "$(timeout 5 squeue -h -j "$job" -o '%T %r')" = "RUNNING None" ] && grep -q 'joined run job-[0-9]*-r1;' /home/ada/job.out; }
await restarted
tap_result $? "it is requeued and runs again"
again=$(date +%s)
echo "# $((again - crashed)) s from the crash to the new launchers"
[ $((again - crashed)) -lt 100 ]
tap_result $? "without the hold of 121 s"
job_nodes "$job" >"$TAP/out"
lacks "without the lost node" "^$victim\$" "$TAP/out"
timeout 5 scontrol show job "$job" >"$TAP/out"
has "which it excludes" "ExcNodeList=$victim\$" "$TAP/out"
has "on three nodes" "NumNodes=3 " "$TAP/out"
await job_has_ended
is "it ends well" "$(job_result)" 'exit 0'
has "from a checkpoint" 'restored from checkpoint of step' /home/ada/job.out
lacks "no two attempts ran at once" . /home/ada/overlap
decisions
has "the decisions are in the run's log" 'decision: end .*2 nodes are left, at least 3 needed' "$TAP/out"
[ $tap_failed = 0 ] || show_job
done_testing
