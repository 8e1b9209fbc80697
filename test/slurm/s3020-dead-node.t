#!/bin/sh
# A node of a job dies.  The site's controller tells Slurm at once, not after SlurmdTimeout: the launchers of the job have lost it, and nothing answers at
# its slurmd's port.  The job goes on with a spare, another user's job is not touched, and a node that answers is not called dead.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/slurm/jobs.sh"
cluster_up --nodes 5 --net --conf SlurmdTimeout=300
jobs_begin ada
site=$TAP/site
LOCKSTEP_STATE=$site "$LOCKSTEP" control --act --drain-share 60 --listen 10.77.0.1:8787 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
url=$(cat "$site/control.url")
pin=$(sed -n 's/.*LOCKSTEP_CONTROL_PIN=//p' "$TAP/control.err" | tail -n 1)
mkdir -m 700 "$TAP/kmsg"
for node in n1 n2 n3 n4; do
    mkfifo "$TAP/kmsg/$node"
    mkdir -m 700 "$TAP/agent-$node"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token $node >/dev/null
    install -m 600 "$site/nodes/$node.token" "$TAP/agent-$node/node.token"
    in_node $node env LOCKSTEP_CONTROL="$url" LOCKSTEP_CONTROL_PIN="$pin" LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token" \
        "$LOCKSTEP" agent --every-run --state "$TAP/agent-$node" --node $node --kmsg "$TAP/kmsg" 2>"$TAP/agent-$node.err" </dev/null &
done
install -m 600 -o ada -g ada "$site/tokens/launch.token" /home/ada/launch.token
reason() { scontrol show node "$1" | sed -n 's/^ *Reason=\(.*\) \[.*/\1/p'; }
has_reason() { [ -n "$(reason "$1")" ]; }
logged() { grep -Eq "$1" "$TAP/control.err"; }

other=$(as bob sbatch --parsable -N1 -w n5 -o /dev/null --wrap 'exec sleep 1000')
await job_is "$other" RUNNING
submit ada -N4 -x n5 --no-kill <<END
export LOCKSTEP_CONTROL=$url LOCKSTEP_CONTROL_PIN=$pin LOCKSTEP_TOKEN_FILE=/home/ada/launch.token
srun --no-kill --kill-on-bad-exit=0 lockstep run -n 1 --spares 2 --max-restarts 9 --lease 4s --grace 2s -- ./rank \\
    lockstep trainer --steps 100000 --step-ms 20 --checkpoint-dir "\$PWD/points" --checkpoint-every 20
END
await trained 60
tap_result $? "a job trains on two of four nodes"

# Its processes are gone, and its kernel still answers: Slurm sees for itself what that is.
first=$(node_of_rank 1)
steps=$(steps_of_job)
node_crash "$first"
await logged "down $first"
tap_result $? "a node that was lost is looked at"
await logged "refused: $first answers"
tap_result $? "and is not dead while anything of it answers"
is "nothing is said of it to Slurm" "$(reason "$first")" ''
goes_on() { second=$(node_of_rank 1) && [ "$second" != "$first" ] && [ "$(steps_of_job)" -gt "$((steps + 40))" ]; }
await goes_on
tap_result $? "the job goes on with a spare"

# Nothing answers.
second=$(node_of_rank 1)
steps=$(steps_of_job)
link_cut "$second"
node_crash "$second"
await has_reason "$second"
is "a dead node is reported at once" "$(reason "$second" | sed 's/lost-[0-9a-f]*$/ID/')" "lockstep: node-fault lost ID"
is_down() { scontrol show node "$second" | grep -q 'State=DOWN'; }
await is_down
tap_result $? "as down, because the job is alone on it"
third_goes_on() { [ "$(node_of_rank 1)" != "$second" ] && [ "$(steps_of_job)" -gt "$((steps + 40))" ]; }
await third_goes_on
tap_result $? "the job goes on"
is "and is the same job" "$(job_state "$job")" RUNNING
is "the other user's job, too" "$(job_state "$other")" RUNNING
as ada scancel "$job"
await job_has_ended
[ $tap_failed = 0 ] || { cat "$TAP/control.err" >&2 && show_job; }
done_testing
