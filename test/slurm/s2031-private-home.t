#!/bin/sh
# The first node of a job is lost, and each node has a home directory of its own: the checkpoints are elsewhere, on a disk that all share.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 4 --net --private-home
jobs_begin ada
shared=$CLUSTER/shared
mkdir "$shared"
chown ada: "$shared"
cp -p /home/ada/rank "$shared/rank"
printf 'lst_%064d\n' 1 >"$shared/key"
chown ada: "$shared/key"
chmod 600 "$shared/key"
cat >"$shared/job.sh" <<END2
#!/bin/sh
trap : TERM
export LOCKSTEP_JOB_KEY_FILE=$shared/key
srun --no-kill --kill-on-bad-exit=0 lockstep run -n 1 --spares 1 --max-restarts 5 --lease 4s --grace 2s -- \\
    ./rank lockstep trainer --steps 600 --step-ms 20 --checkpoint-dir $shared/points --checkpoint-every 20
END2
: >"$shared/overlap"
chown ada: "$shared/overlap"
job=$(as ada sbatch --parsable -N4 --no-kill -D "$shared" -o "$shared/job.out" "$shared/job.sh")
saved() { [ -e "$shared/points/step-0000000$1" ] || ls "$shared/points" | grep -q "$1"; }
await saved 60
tap_result $? "a job with private homes trains on three of four nodes"
victim=$(timeout 5 scontrol show job "$job" | sed -n 's/^ *BatchHost=//p')
node_crash "$victim"
await saved 500
tap_result $? "the others go on without the first node"
await job_has_ended
is "and end the job" "$(job_state "$job")" CANCELLED
lacks "no two attempts ran at once" . "$shared/overlap"
[ $tap_failed = 0 ] || { cat "$shared/job.out" >&2; ls "$shared/points" >&2; }
done_testing
