#!/bin/sh
# A scontrol that hangs, prints nonsense, or refuses: it never holds up the end of a run, and the job is requeued when it works
# again.  A program in front of the real one plays that.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

cluster_up --nodes 3 --net
jobs_begin ada
real=$(command -v scontrol)
cat >"$CLUSTER/bin/scontrol" <<END2
#!/bin/sh
# Only what a launcher asks for: the test itself uses the real one.
plays=\$(cat /home/ada/plays 2>/dev/null)
if [ "\${SLURM_STEP_ID-}" ] && [ "\$plays" ]; then
    echo "\$plays \$*" >>/home/ada/played
    [ -e /home/ada/always ] || : >/home/ada/plays
    case \$plays in
    hang) exec sleep 1000 ;;
    garbage) head -c 100000 /dev/urandom; exit 0 ;;
    other) echo "JobId=77 JobName=x UserId=bob(61002) JobState=RUNNING"; exit 0 ;;
    no) echo "slurm_update error: Access/permission denied" >&2; exit 1 ;;
    esac
fi
exec $real "\$@"
END2
chmod 755 "$CLUSTER/bin/scontrol"
requeued() { grep -q 'joined run job-[0-9]*-r1;' /home/ada/job.out; }
loses_a_node() # WHAT
{
    await nodes_are idle 3
    rm -f /home/ada/played
    : >/home/ada/plays
    chown ada: /home/ada/plays
    train ada 2000 "-n 1 --max-restarts 5 --requeues 1 --join-wait 3s" -N2 --requeue
    await trained 40
    echo "$1" >/home/ada/plays
    victim=$(node_of_rank 1)
    node_crash "$victim"
}
node_back()
{
    as ada scancel "$job"
    await job_has_ended
    node_boot "$victim"
}

for play in hang garbage other; do
    loses_a_node $play
    await requeued
    tap_result $? "the job is requeued after a scontrol that plays: $play"
    has "which was asked" "$play show job" /home/ada/played
    has "the reason is reported" "job $job is not requeued yet: scontrol" /home/ada/job.out
    [ $tap_failed = 0 ] || show_job
    node_back
done

: >/home/ada/always
loses_a_node no
await job_has_ended
tap_result $? "a scontrol that always refuses does not hold up the end"
is "the job ends with the status of the run" "$(job_result)" 'exit 1'
has "and with the reason" "job $job is not requeued: scontrol: .*denied" /home/ada/job.out
[ $tap_failed = 0 ] || show_job
done_testing
