#!/bin/sh
# two-am.sh - one night on a real Slurm cluster: a job trains, a part of one of its nodes fails, nobody is awake.
#
#   two-am.sh OUT FAULT RANK STEP DEATH     started by `lockstep drill --two-am`, which has drawn the words and reads OUT
#
# FAULT is slow-disk or lost-gpu.  It comes at the first checkpoint behind STEP, to the node that has RANK then; a rank
# whose GPU is lost ends (DEATH is abort) or stands still (stop).  At the same time a bit of the newest checkpoint is flipped.
# Nothing here acts for the job: what follows is done by lockstep and Slurm.  OUT gets what they say of it afterwards:
#
#   deeds           what was done here: time of day, then words
#   job.out         what the job printed, with the words of its launchers
#   why.json        lockstep why --json --all; incident-ID.json of each verdict
#   steps.json, decisions.json, outcomes.json, node.json, reference.json     the controller's API
#   nodes.before, nodes.after, jobs.before, jobs.after, left                 sinfo, squeue, and what the job left
#
# DRILL is the folder of this file; LOCKSTEP is the program.
# SPDX-License-Identifier: Apache-2.0
set -u
out=$1 fault=$2 rank=$3 step=$4 death=$5
DRILL=${DRILL-$(dirname "$0")}
CLUSTER_WITHOUT_TAP=yes # for cluster.sh
export CLUSTER_WITHOUT_TAP
TAP=${TAP-}
if [ -n "${LOCKSTEP_TEST_CLUSTER-}" ]; then
    TAP=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-drill.XXXXXX")
    trap 'rm -rf "$TAP"' EXIT
fi
lacks()
{
    echo "$1" >"$out/lacks"
    exit 3
}
tap_result() { lacks "$2"; } # of cluster.sh: why the cluster does not start
await() # COMMAND...: until it is true, a minute at most
{
    await_left=1200
    until "$@" >/dev/null 2>&1; do
        await_left=$((await_left - 1))
        [ $await_left -gt 0 ] || return 1
        sleep 0.05 # between two looks
    done
}
# shellcheck source=/dev/null
. "$DRILL/cluster.sh"
# shellcheck source=/dev/null
. "$DRILL/jobs.sh"
export LOCKSTEP_CONFIG=/dev/null

deed() { echo "$(date +%s.%N) $*" >>"$out/deeds"; }
must() # WHAT COMMAND...: that, in a minute, or the drill could not begin
{
    must_what=$1
    shift
    await "$@" || lacks "$must_what"
}

# ---- a site: controller, a daemon of each node that reads its kernel log, a disk of each node ----

site=$TAP/site
token() { printf 'header = "Authorization: Bearer %s"\n' "$(cat "$1")"; }
api() # PATH: what the controller answers a reader
{
    token "$site/tokens/reader.token" | curl -sk -m 20 -K - "$url/api/v1/$1"
}

site_begin()
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --act --listen 10.77.0.1:8787 2>"$out/control.err" &
    # shellcheck disable=SC2034 # ended by cluster_down
    control=$!
    must "the controller does not start" test -s "$site/control.url"
    url=$(cat "$site/control.url")
    pin=$(sed -n 's/.*LOCKSTEP_CONTROL_PIN=//p' "$out/control.err" | tail -n 1)
    mkdir -m 700 "$TAP/kmsg"
    for site_k in $(seq 6); do site_node_begin "n$site_k"; done
    for site_k in $(seq 6); do must "no disk on node n$site_k" grep -q mounted "$out/disk-n$site_k"; done
}

site_node_begin() # NODE
{
    mkfifo "$TAP/kmsg/$1"
    mkdir -m 700 "$TAP/agent-$1"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token "$1" >/dev/null
    install -m 600 "$site/nodes/$1.token" "$TAP/agent-$1/node.token"
    in_node "$1" env LOCKSTEP_CONTROL="$url" LOCKSTEP_CONTROL_PIN="$pin" LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token" \
        "$LOCKSTEP" agent --every-run --state "$TAP/agent-$1" --node "$1" --kmsg "$TAP/kmsg" 2>"$out/agent-$1.err" </dev/null &
    # shellcheck disable=SC2016 # for the shell on the node
    in_node "$1" sh -c 'echo $$ >/run/disk.pid; exec "$0" slow-disk --at /run/nvme --backing /run/nvme.store' \
        "$LOCKSTEP" >"$out/disk-$1" 2>&1 </dev/null &
}

# ---- the jobs ----

steps=300
train="lockstep trainer --steps $steps --seed 7 --checkpoint-every 50"
users_begin()
{
    jobs_begin ada
    install -m 600 -o ada -g ada "$site/tokens/launch.token" /home/ada/launch.token
    echo "export LOCKSTEP_CONTROL=$url LOCKSTEP_CONTROL_PIN=$pin LOCKSTEP_TOKEN_FILE=/home/ada/launch.token" >/home/ada/site
    # As in the driver: no program gets a device of this node any more.
    sed -i '/^exec /d' /home/ada/rank
    cat >>/home/ada/rank <<'END'
if [ -e /run/gpu-is-lost ]; then
    echo "RuntimeError: CUDA error: no CUDA-capable device is detected" >&2
    exit 1
fi
exec "$@"
END
}

# The same training without a fault and without waiting; its losses are at the controller.
reference_begin()
{
    as ada mkdir -p reference/data
    as ada sh -c ". ./site; exec lockstep run -q --name reference -n 4 -- $train --step-ms 1 --host-work-ms 0.1 \
        --data-dir reference/data --checkpoint-dir reference/points" >"$out/reference.out" 2>&1 &
    reference=$!
}

job_begin()
{
    submit ada -N5 -x n6 -t 240 --no-kill -J train <<END
. ./site
srun --kill-on-bad-exit=0 lockstep run -n 1 --spares 1 --max-restarts 9 --act --grace 2s -- ./rank \
    $train --step-ms 60 --data-dir /run/nvme/data --checkpoint-dir "\$PWD/points"
END
}

# ---- what fails ----

newest_point() # committed, and read back by all ranks
{
    for point in /home/ada/points/step-*; do
        [ -e "$point/COMMIT" ] && [ "$(find "$point" -name '*.verified' | wc -l)" = 4 ] && echo "${point##*-}"
    done | sort -n | tail -n 1
}
point_behind() # STEP
{
    newest=$(newest_point)
    [ "${newest:-0}" -gt "$1" ]
}
bit_flip() # FILE: bit 2 of the byte in its middle
{
    bit_at=$(($(stat -c %s "$1") / 2))
    bit_byte=$(($(od -An -tu1 -j "$bit_at" -N 1 "$1") ^ 4))
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf %03o "$bit_byte")" | dd of="$1" bs=1 seek="$bit_at" conv=notrunc 2>/dev/null
}
flipped=''
flip_newest() # whichever that is now; an older one gets its bit back
{
    newest=$(newest_point)
    [ "$newest" != "$flipped" ] || return 0
    [ -z "$flipped" ] || bit_flip "/home/ada/points/step-$flipped/rank-00002.safetensors"
    flipped=$newest
    bit_flip "/home/ada/points/step-$flipped/rank-00002.safetensors"
    deed flips "$flipped" "rank-00002.safetensors" "$bit_at"
}

kernel() # NODE LINE: by the kernel of that node, now
{
    echo "3,1,$(awk '{ printf "%d", $1 * 1000000 }' /proc/uptime),-;$2" >"$TAP/kmsg/$1"
    deed kernel "$1" "$2"
}

# The times of a deed are those before it, so that nothing looks faster than it was.
fail_slow_disk()
{
    deed fails "$victim" "each read of its disk takes 60 ms longer"
    # shellcheck disable=SC2016 # for the shell on the node
    in_node "$victim" sh -c 'kill -USR1 $(cat /run/disk.pid)'
    kernel "$victim" "nvme nvme0: I/O 832 QID 9 timeout, reset controller"
}
fail_lost_gpu()
{
    pid=$(pid_of_rank "$rank")
    case $death in
    stop) signal=STOP && deed fails "$victim" "the GPU of rank $rank is gone; the rank stands still" ;;
    *) signal=ABRT && deed fails "$victim" "the GPU of rank $rank is gone; the rank aborts" ;;
    esac
    in_node "$victim" touch /run/gpu-is-lost
    kernel "$victim" "NVRM: Xid (PCI:0000:3b:00): 79, pid=$pid, name=lockstep-lab, GPU has fallen off the bus."
    in_node "$victim" kill -$signal "$pid"
}

restarted() { grep -q "lockstep run: attempt [1-9]" /home/ada/job.out; }

flip_until_restarted() # a point that is saved meanwhile is the newest
{
    flips=0
    until restarted || [ -e "$out/over" ] || [ $flips -gt 1200 ]; do
        flip_newest
        flips=$((flips + 1))
        sleep 0.05 # between two looks
    done
}

# ---- what became of it ----

nodes_tell() { timeout 10 sinfo -h -N -o '%N|%T|%E' | sort -u; }
job_tell() # JOB
{
    timeout 10 scontrol -o show job "$1" | tr ' ' '\n' | grep -E '^(JobId|JobState|Restarts|StartTime|NodeList)='
    in_node n6 pgrep -x sleep -a
}
ada_has()
{
    pgrep -u ada -a
    for left_k in $(seq 6); do
        in_node "n$left_k" find /dev/shm /run -user ada | sed "s/^/n$left_k: /"
    done
    timeout 10 squeue -h -u ada -o 'job %i %T'
}
ada_has_no_process() { ! pgrep -u ada; }

collect()
{
    export LOCKSTEP_STATE="$site"
    "$LOCKSTEP" why --json --all "$run" >"$out/why.json" 2>"$out/why.err"
    grep -o '"id": *"[a-z][a-z]-[0-9a-f]*"' "$out/why.json" | grep -o '[a-z][a-z]-[0-9a-f]*' | sort -u |
        while read -r id; do "$LOCKSTEP" incident --run "$run" --json "$id" >"$out/incident-$id.json" 2>/dev/null; done
    for what in decisions outcomes findings; do api "runs/$run/$what" >"$out/$what.json"; done
    api "runs/$run/steps?limit=1000" >"$out/steps.json"
    api "runs/reference/steps?limit=1000" >"$out/reference.json"
    api "nodes/$victim" >"$out/node.json"
    api node-states >"$out/nodes.json"
    "$LOCKSTEP" ckpt verify --json /home/ada/points >"$out/points.json" 2>/dev/null
    unset LOCKSTEP_STATE
}

cluster_up --nodes 6 --net
deed cluster "$(slurmctld -V)"
site_begin
users_begin
reference_begin
other=$(as bob sbatch --parsable -N1 -w n6 -o /dev/null --wrap 'exec sleep 100000')
must "the job of another user does not start" job_is "$other" RUNNING
nodes_tell >"$out/nodes.before"
job_tell "$other" >"$out/jobs.before"
wait $reference
job_begin
must "the job does not start" trained 1
run=job-${job-}
deed begins "$run"
must "no checkpoint behind step $step" point_behind "$step"
victim=$(node_of_rank "$rank")
flip_until_restarted &
flipper=$!
must "no bit was flipped" grep -q ' flips ' "$out/deeds"
"fail_$(echo "$fault" | tr - _)"
await job_has_ended || await job_has_ended || must "the job does not end" job_has_ended
: >"$out/over"
wait $flipper
deed ends "$(job_result)"
await ada_has_no_process
ada_has >"$out/left" 2>/dev/null
nodes_tell >"$out/nodes.after"
job_tell "$other" >"$out/jobs.after"
cp /home/ada/job.out "$out/job.out"
collect
