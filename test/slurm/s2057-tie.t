#!/bin/sh
# The network of a job splits into two equal halves.  Neither half goes on by itself: both end their ranks, and Slurm decides.  The half that
# reaches it requeues the job without the other half.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 6 --net
jobs_begin ada
# Any node of the first four may lead: an attempt needs more than half of them.
# shellcheck disable=SC2016 # for the shell of the job
train ada 200 '-n 1 --nnodes 2:4 --max-restarts 5 --requeues 2 --join-wait 60s --rdzv-endpoint "$(scontrol show hostnames | sed "s/$/:7001/" | paste -sd,)"' -N4 --requeue
await trained 60
tap_result $? "a job trains on four nodes, two of each leaf switch"
job_nodes "$job" | tr '\n' ' ' >"$TAP/nodes"
is "on n1 to n4" "$(cat "$TAP/nodes")" 'n1 n2 n3 n4 '
link_cut up1 # n3 and n4 reach each other, and nobody else
requeued() { [ "$(timeout 5 squeue -h -j "$job" -o '%T %r')" = "RUNNING None" ] && grep -q 'joined run job-[0-9]*-r1;' /home/ada/job.out; }
await requeued || await requeued
tap_result $? "the half that reaches Slurm requeues the job"
job_nodes "$job" | tr '\n' ' ' >"$TAP/nodes"
is "without the other half" "$(cat "$TAP/nodes")" 'n1 n2 n5 n6 '
has "neither half had a majority" '2 nodes are left, at least 3 needed' /home/ada/job.out
await job_has_ended
is "it ends well" "$(job_result)" 'exit 0'
has "from a checkpoint" 'restored from checkpoint of step' /home/ada/job.out
lacks "no two attempts ran at once" . /home/ada/overlap
[ $tap_failed = 0 ] || show_job
done_testing
