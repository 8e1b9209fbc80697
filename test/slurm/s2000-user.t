#!/bin/sh
# A user's job without any help of the site: srun and sbatch start lockstep on each node, and it finds the rest in Slurm's
# variables.  A lost node is replaced by a spare of the allocation; another user's job beside it is not touched.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 5 --net
jobs_begin ada

# srun, from start to end.
as ada srun -N2 lockstep run -n 2 -- lockstep trainer --steps 60 --step-ms 5 >"$TAP/out" 2>"$TAP/err"
is "srun lockstep run starts ranks on two nodes" "$?" 0
has "which are one run" 'ranks 2 to 3 of 4 on n[12]' "$TAP/err"
has "named after the job" "joined run job-[0-9]+;" "$TAP/err"
has "that trains" 'rank 0. done after 60 steps' "$TAP/out"
want=$(sed -n 's/^.*\[rank 0\] done after \(.*\)/\1/p' "$TAP/out")

# sbatch with a spare; a node crashes; somebody else's job is beside it.
other=$(as bob sbatch --parsable -N1 -w n5 -o /dev/null --wrap 'exec sleep 1000')
await job_is "$other" RUNNING
submit ada -N4 --no-kill -J spare <<'END'
srun --kill-on-bad-exit=0 lockstep run -n 1 --spares 1 --max-restarts 5 --lease 6s --grace 2s -- \
    ./rank lockstep trainer --steps 400 --step-ms 20 --checkpoint-dir "$PWD/points" --checkpoint-every 20
END
await trained 60
tap_result $? "a batch job trains on three of four nodes"
victim=$(node_of_rank 1)
node_crash "$victim"
await grep -q "attempt [1-9]: ranks 1 to 1 of 3 on n" /home/ada/job.out
tap_result $? "a spare takes the ranks of a lost node"
await job_has_ended
is "the job ends well" "$(job_result)" 'exit 0'
has "from a checkpoint" 'restored from checkpoint of step' /home/ada/job.out
lacks "no two attempts ran at once" . /home/ada/overlap
is "the other user's job still runs" "$(job_state "$other")" RUNNING
is "the key of a run that has ended is removed" "$(find /home/ada -name '*.key')" ''
done_testing
