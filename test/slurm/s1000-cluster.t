#!/bin/sh
# The cluster that the other tests use: nodes are apart from each other, can be lost, come back, and leave nothing behind.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"

cluster_up --nodes 4 --leaf 2 --net --private-home
ok "a user's job runs on all nodes" as ada srun -N4 sh -c 'echo "$(hostname) $SLURMD_NODENAME $(id -un) $CUDA_VISIBLE_DEVICES"'
is "each with its own name" "$(sort "$TAP/out" | tr '\n' ',')" 'n1 n1 ada ,n2 n2 ada ,n3 n3 ada ,n4 n4 ada ,'
ok "GPUs are given" as ada srun -N1 --gpus-per-node=2 sh -c 'echo $CUDA_VISIBLE_DEVICES'
has "by their numbers" '^0,1$' "$TAP/out"
as ada srun -N4 sh -c 'echo $(hostname) >mine; echo $(hostname) >/dev/shm/mine'
ok "home and shared memory are the node's own" as ada srun -N4 sh -c '[ "$(cat mine)$(cat /dev/shm/mine)" = "$(hostname)$(hostname)" ]'
[ ! -e /home/ada/mine ]
tap_result $? "the login node has another home"

# A lost node takes its tasks with it.
job=$(as ada sbatch --parsable -N2 -w n1,n2 --no-kill --wrap 'srun --no-kill sleep 1000')
await job_is "$job" RUNNING
tasks() { in_node "$1" pgrep -x sleep; } # the node's own process, and the task
running() { [ "$(tasks "$1" | wc -l)" -ge 2 ]; } # later versions of Slurm have one of their own
await running n1
await running n2
node_crash n2
await node_is_gone n2
tap_result $? "a crash ends everything on the node"
running n1
tap_result $? "and nothing on another one"
slurmd_kill n1
running n1
tap_result $? "tasks outlive slurmd"
slurmd_start n1
node_boot n2
as ada scancel "$job"
await nodes_are idle 4
tap_result $? "both nodes come back"

# The network between them is real.
reaches() { in_node "$1" timeout 3 bash -c 'echo >/dev/tcp/10.77.0.1/6817' 2>/dev/null; }
await reaches n3
tap_result $? "a node reaches the controller"
link_cut n3
! reaches n3
tap_result $? "not while its link is cut"
link_heal n3
await reaches n3
tap_result $? "again when it is healed"
link_rate n3 1mbit
tc -n n3 qdisc show dev eth0 >"$TAP/out"
has "a link can be slowed" 'tbf .*rate 1Mbit' "$TAP/out"
link_rate leaf0 2mbit
tc qdisc show dev down0 >"$TAP/out"
has "and that of a switch" 'tbf .*rate 2Mbit' "$TAP/out"
link_rate n3 0
tc -n n3 qdisc show dev eth0 >"$TAP/out"
lacks "the limit can be lifted" tbf "$TAP/out"

# Another cluster beside it, which is killed and leaves no process.
cat >"$TAP/second.t" <<'END'
. "$SOURCE/test/slurm/cluster.sh"
cluster_up --nodes 4 --net
sinfo -h -N -o '%N %T' | grep -c idle >"$SECOND"
sleep 1000
END
SECOND=$TAP/second env -u LOCKSTEP_TEST_CLUSTER sh "$TAP/second.t" &
second=$!
await test -s "$TAP/second"
is "a second cluster has the same names and ports" "$(cat "$TAP/second")" 4
nodes_are idle 4
tap_result $? "which the first does not notice"
kill -KILL $second
one_slurmctld() { [ "$(pgrep -x slurmctld | wc -l)" = 1 ]; }
await one_slurmctld
tap_result $? "a test that is killed leaves no cluster"
done_testing
