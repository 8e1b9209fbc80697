#!/bin/sh
# From a failed check to the way back, on a real Slurm: the prolog's check is evidence that takes a node out; the controller has the node
# checked until it has passed twice, and gives it back.  Idle nodes are checked as a job that gives way to every other.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/t/site.sh"
trap cluster_down EXIT
cluster_up --nodes 2 --conf PreemptType=preempt/partition_prio --conf PreemptMode=CANCEL \
    --conf "PartitionName=train Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE PriorityTier=10" \
    --conf "PartitionName=verify Nodes=ALL State=UP OverSubscribe=EXCLUSIVE PriorityTier=1 PreemptMode=CANCEL AllowGroups=root"

# What the checks read: a node with eight GPUs on which nothing else happens.
echo "nvml.count value 8
cuda.*.multiprocessors value 4
cuda.*.free value 1048576" >"$TAP/fake"
for node in n1 n2; do
    "$LOCKSTEP" bench agent --tree "$TAP/tree-$node" >/dev/null
    mkdir -p "$TAP/tree-$node/usr/lib"
    for library in libnvidia-ml.so.1 libcuda.so.1; do
        ln -s "$BUILD/src/device/$library" "$TAP/tree-$node/usr/lib/$library"
    done
done
on_node() # NODE COMMAND...: with the tree of the node
{
    on_node=$1
    shift
    in_node "$on_node" env LOCKSTEP_FAKE_DEVICE="$TAP/fake" LOCKSTEP_AGENT_STATE="$TAP/agent-$on_node" "$@"
}
daemon_start() # NODE
{
    mkdir -m 700 "$TAP/agent-$1"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token "$1" >/dev/null
    install -m 600 "$site/nodes/$1.token" "$TAP/agent-$1/node.token"
    # shellcheck disable=SC2016 # for the shell on the node
    on_node "$1" env LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token" sh -c '
        exec "$2" agent --every-run --state "$3" --node "$4" --control "$5" --sysroot "$1" --no-node-sensors --verify-partition verify
        ' sh "$TAP/tree-$1" "$LOCKSTEP" "$TAP/agent-$1" "$1" "$url" >"$TAP/agent-$1.err" 2>&1 </dev/null &
}
check() # NODE OPTION...: as its prolog does
{
    check_node=$1
    shift
    on_node "$check_node" "$LOCKSTEP" check --sysroot "$TAP/tree-$check_node" "$@"
}
life_is() { [ "$(show "api/v1/nodes/$1" | sed -n 's/.*"life":{"state":"\([^"]*\)".*/\1/p')" = "$2" ]; }
ask() # NODE OPTION...
{
    ask_node=$1
    shift
    LOCKSTEP_STATE=$site "$LOCKSTEP" request verify --control "$url" "$@" "$ask_node" >"$TAP/out" 2>"$TAP/err"
}
closed() { show "api/v1/nodes/$1/requests?id=$2" >"$TAP/request" && grep -q '"open":false' "$TAP/request"; }
verifies() { [ "$(squeue -h -p verify -t R -n lockstep-verify -w "$1" -o %N)" = "$1" ]; }
told() { show "api/v1/nodes/$1" >"$TAP/node" && grep -Eq "$2" "$TAP/node"; }

site_start --act --drain-share 50
daemon_start n1
daemon_start n2
await told n1 '"node":"n1"'
await told n2 '"node":"n2"'

# A job in the partition that gives way.
ask n1 --stage quick
is "an idle node is checked" $? 0
has "with a good result" '^node n1: done: stage quick: ok$' "$TAP/out"
has "as a job of Slurm's" '^verify lockstep-verify root$' "$(squeue -h -t all -w n1 -o '%P %j %u' >"$TAP/jobs"; echo "$TAP/jobs")"
ask n1 --wait 0s --stage deep
id=$(cat "$TAP/out")
await verifies n1
tap_result $? "longer checks run as such a job"
job=$(as bob sbatch --parsable -p train -N1 -w n1 -o /dev/null --wrap 'exec sleep 1000')
await job_is "$job" RUNNING
tap_result $? "a user's job gets the node"
await closed n1 "$id"
has "the checks ended for it" '"result":"not-executed"' "$TAP/request"
lacks "and reported nothing" '"stage":"deep"' "$TAP/request"
is "no process of them is left" "$(in_node n1 pgrep -fc 'lockstep check')" 0
is "the job goes on" "$(job_state "$job")" RUNNING
as bob scancel "$job"

# The prolog finds a fault.
echo "3,2,2000000,-;NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU has fallen off the bus." >>"$TAP/tree-n2/dev/kmsg"
exits 1 "the prolog's check fails" check n2 --for prolog --report
await life_is n2 out
tap_result $? "that is proof enough to take the node out"
await node_is n2 drained
tap_result $? "of Slurm"
is "the other one stays" "$(life_is n1 checked && node_state n1)" idle
await told n2 '"action":"verify","state":"ordered".*"result":"done".*stage quick: failed'
tap_result $? "the controller has it checked, and it fails again"
life_is n2 out
tap_result $? "so it stays out"

# It is repaired, and passes twice.
sed -i '/Xid/d' "$TAP/tree-n2/dev/kmsg"
ask n2 --stage quick
has "a first pass" '^node n2: done: stage quick: ok$' "$TAP/out"
await told n2 '"passes":1'
life_is n2 out
tap_result $? "does not suffice"
ask n2 --stage quick
has "a second pass" '^node n2: done: stage quick: ok$' "$TAP/out"
await life_is n2 back
tap_result $? "leads back"
await node_is n2 idle
tap_result $? "to Slurm"
kill -9 $control
wait $control 2>/dev/null
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#http://}" --act 2>>"$TAP/control.err" &
control=$!
await curl -sf "$url/healthz"
lacks "the site's log replays byte for byte" 'differently' "$TAP/control.err"
done_testing
