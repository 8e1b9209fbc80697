#!/bin/sh
# recover.sh - for `lockstep bench recover --slurm test/slurm/recover.sh`: a node of a Slurm job is lost.
#
# usage: recover.sh ENGINE...     slurm: sbatch --requeue, and nothing else.  slurm-loop: a loop around srun in a --no-kill allocation,
#                                 which takes the nodes that answer.  cold: lockstep run with a spare, with its default lease.
#
# Prints a line for each: ENGINE, seconds from the loss to the first new step, steps lost.  Needs root and SOURCE, BUILD and LOCKSTEP as the
# tests.  The cluster gives a node up after 10 s (SlurmdTimeout), where a site waits 300 s by default.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"

out=/home/ada/job.out
restores() { restores_now=$(grep -c 'restored from checkpoint' "$out") && [ "$restores_now" -gt 0 ]; }
# The first step of a process is always printed.
stepped() { sed -n '/restored from checkpoint/,$p' "$out" | grep -q '^\(\[rank 0\] \)\{0,1\}step '; }
begun() { [ "$(sed -n 's/^\(\[rank 0\] \)\{0,1\}step \([0-9]*\) .*/\2/p' "$out" 2>/dev/null | tail -n 1)" -ge 60 ] 2>/dev/null; }

cluster_up --nodes 4 --net >&2
jobs_begin ada
cat >/home/ada/plain <<'END2'
#!/bin/sh
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=0 MASTER_ADDR=$1 MASTER_PORT=$2 LOCKSTEP_QUIET=1
exec lockstep trainer --steps 1000000 --step-ms 20 --checkpoint-dir /home/ada/points --checkpoint-every 20
END2
chmod 755 /home/ada/plain

recover_submit() # ENGINE
{
    case $1 in
    slurm)
        submit ada -N3 --requeue <<'END2'
srun --kill-on-bad-exit=1 ./plain "$(scontrol show hostnames | head -n 1)" $((20000 + SLURM_JOB_ID * 10 + ${SLURM_RESTART_COUNT:-0}))
END2
        ;;
    slurm-loop)
        submit ada -N4 --no-kill <<'END2'
try=0
while [ $try -lt 9 ]; do
    nodes=
    for node in $(scontrol show hostnames); do # of the allocation, those that answer; one is left over
        timeout 1 bash -c "echo >/dev/tcp/$node/$((6900 + ${node#n}))" 2>/dev/null && nodes="$nodes $node"
    done
    set -- $nodes
    srun --no-kill --kill-on-bad-exit=1 --wait=1 --overlap -N3 -w "$1,$2,$3" ./plain "$1" $((20000 + SLURM_JOB_ID * 10 + try)) && break
    try=$((try + 1))
done
END2
        ;;
    cold) train ada 1000000 "-n 1 --spares 1 --max-restarts 5 --lease 4200ms" -N4 ;;
    esac
}

patiently() # CONDITION: four minutes at most
{
    await "$1" || await "$1" || await "$1" || await "$1"
}

for engine; do
    recover_submit "$engine"
    if ! patiently begun; then
        echo "recover.sh: $engine does not begin" >&2
        show_job
        exit 1
    fi
    job_nodes "$job" >"$TAP/nodes"
    victim=$(sed -n 2p "$TAP/nodes") # not the first: that has the script
    before=$(sed -n 's/^\(\[rank 0\] \)\{0,1\}step \([0-9]*\) .*/\2/p' "$out" | tail -n 1)
    lost_at=$(date +%s.%N)
    node_crash "$victim"
    if ! patiently stepped; then
        echo "recover.sh: $engine does not train again" >&2
        show_job
        exit 1
    fi
    now=$(date +%s.%N)
    from=$(sed -n 's/.*restored from checkpoint of step \([0-9]*\).*/\1/p' "$out" | tail -n 1)
    echo "$engine $(echo "$lost_at $now" | awk '{ printf "%.3f", $2 - $1 }') $((before > from ? before - from : 0))"
    as ada scancel "$job" >&2
    await job_has_ended
    node_boot "$victim"
    await nodes_are idle 4
done
