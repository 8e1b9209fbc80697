#!/bin/sh
# Slurm ends a job: another one with more priority takes its nodes, or its time is over.  Its ranks save at the same step first, and
# the job goes on from there when it is started again.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 2 --net --proctrack pgid --conf PreemptType=preempt/partition_prio --conf PreemptMode=REQUEUE --conf OverTimeLimit=0 \
    --conf "PartitionName=train Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE PriorityTier=1 GraceTime=25" \
    --conf "PartitionName=urgent Nodes=ALL State=UP OverSubscribe=EXCLUSIVE PriorityTier=10"
jobs_begin ada
sparse() # STEPS RUN-OPTIONS SBATCH-OPTION...: a job that saves only when it is asked
{
    train_user=ada
    sparse_steps=$1 sparse_options=$2
    shift 2
    submit ada --no-kill "$@" <<END2
srun --no-kill --kill-on-bad-exit=0 lockstep run -n 1 --grace 2s $sparse_options --checkpoints "\$PWD/points" -- \\
    ./rank lockstep trainer --steps $sparse_steps --step-ms 20 --checkpoint-dir "\$PWD/points" --checkpoint-every 100000
END2
}

# Preemption: the job requeues itself when it has saved.  Without a GraceTime it would send SIGTERM to srun as well, which then kills the step.
sparse 2500 "--requeues 1" -N2 --requeue
await trained 50
tap_result $? "a job trains"
urgent=$(as bob sbatch --parsable -p urgent -N2 -o /dev/null --wrap 'exec sleep 3')
await job_is "$urgent" RUNNING
tap_result $? "a more important one takes its nodes"
has "the signal leads to a checkpoint" 'SIGTERM: the ranks are asked for a checkpoint' /home/ada/job.out
saved=$(sed -n 's/.*ranks here have saved after step \([0-9]*\);.*/\1/p' /home/ada/job.out | sort -n | tail -n 1)
tap_result $((saved > 0 ? 0 : 1)) "which all ranks make at one step (${saved:-none})"
decisions
has "the decision is in the log" 'decision: checkpoint' "$TAP/out"
await grep -q 'joined run job-[0-9]*-r1;' /home/ada/job.out
await grep -q "restored from checkpoint of step $((saved + 1))" /home/ada/job.out
tap_result $? "it goes on from there"
[ $tap_failed = 0 ] || show_job
as ada scancel "$job"
await job_has_ended
lacks "no two attempts ran at once" . /home/ada/overlap

# A signal some time before the end: the job requeues itself.
await nodes_are idle 2
sparse 2500 "--requeues 1" -N2 --requeue --time=1 --signal=USR1@45
await trained 50
await grep -q 'SIGUSR1: the ranks are asked for a checkpoint' /home/ada/job.out
tap_result $? "so does a signal before the end of its time"
await grep -q 'joined run job-[0-9]*-r1;' /home/ada/job.out
tap_result $? "the job requeues itself, and is not held"
saved=$(sed -n 's/.*ranks here have saved after step \([0-9]*\);.*/\1/p' /home/ada/job.out | sort -n | tail -n 1)
await grep -q "restored from checkpoint of step $((saved + 1))" /home/ada/job.out
tap_result $? "and goes on from step ${saved:-none}"
[ $tap_failed = 0 ] || show_job
as ada scancel "$job"
await job_has_ended
lacks "no two attempts ran at once" . /home/ada/overlap
done_testing
