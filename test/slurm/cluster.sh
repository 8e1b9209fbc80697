# cluster.sh - a real Slurm cluster of several nodes on this machine, for one test; sourced instead of tap.sh.
#
#   . "$SOURCE/test/slurm/cluster.sh"       # root and Debian's Slurm, or the test is skipped; in CI it fails
#   cluster_up --nodes 5 --net --leaf 2     # slurmctld, one slurmd a node; all nodes idle
#   as ada sbatch -N4 job.sh                # srun, sbatch, scontrol ... find the cluster without any variable
#   node_crash n2                           # power loss; node_boot n2 starts it again
#   slurmd_kill n3                          # the daemon alone; tasks live on
#   link_cut n4; link_heal n4; link_rate n1 40mbit; link_rate leaf0 100mbit; link_rate n1 0
#   done_testing
#
# The test runs itself again in a mount, PID and network namespace of its own.  There /etc/slurm, /etc/passwd, /etc/hosts and
# /home are the cluster's, and ports and names of links cannot collide with those of another cluster or of the machine.
# When the test ends, however it ends, the kernel ends every process, mount and link of it.
#
# A node is a PID, UTS, IPC and mount namespace below that one, with its own /run and /dev/shm.  With --net it also has
# a network namespace: node nK is 10.77.0.(10+K), behind a bridge for each leaf and one for the spine; the test is 10.77.0.1.
# Users ada and bob can submit jobs.  /home is shared by all nodes, or with --private-home each node has its own.
# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0

cluster_lacks() # WHY
{
    [ -z "${CLUSTER_WITHOUT_TAP-}" ] || lacks "$1"
    if [ "${CI-}" = true ]; then
        echo "not ok 1 - $1; run tools/deps slurm"
        echo "1..1"
        exit 1
    fi
    echo "1..0 # SKIP $1; 'make test-slurm' installs what is missing"
    exit 0
}

if [ -z "${LOCKSTEP_TEST_CLUSTER-}" ]; then
    [ "$(id -u)" = 0 ] || cluster_lacks "a Slurm cluster needs root"
    PATH=$PATH:/usr/sbin:/sbin
    for tool in slurmctld slurmd srun munged ip unshare nsenter setpriv; do
        command -v $tool >/dev/null || cluster_lacks "$tool is not installed"
    done
    unshare --mount --pid --net --fork true 2>/dev/null || cluster_lacks "namespaces cannot be created here"
    export PATH LOCKSTEP_TEST_CLUSTER=1
    # The outer process may be killed, and ends with its parent; process 1 of the namespace only waits and reaps.
    exec setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child=KILL --mount-proc \
        sh -c 'sh "$@" & wait $!' sh "$0" "$@"
fi
# `lockstep drill` brings its own words; it sets TAP.
[ -n "${CLUSTER_WITHOUT_TAP-}" ] || . "$SOURCE/test/t/tap.sh"
chmod 711 "$TAP"
CLUSTER=$TAP/slurm # everything of the cluster
ip link set lo up
unset SLURM_CONF

# Files of the machine that the cluster has its own version of.
cluster_files() # NODES
{
    mkdir -p "$CLUSTER/etc" "$CLUSTER/home" "$CLUSTER/run" "$CLUSTER/log" "$CLUSTER/state" "$CLUSTER/munge"
    chmod 755 "$CLUSTER" "$CLUSTER/etc" "$CLUSTER/home" "$CLUSTER/munge" "$CLUSTER/log"
    grep -v '^\(ada\|bob\):' /etc/passwd >"$CLUSTER/passwd"
    grep -v '^\(ada\|bob\):' /etc/group >"$CLUSTER/group"
    cluster_uid=61001
    for cluster_user in ada bob; do
        echo "$cluster_user:x:$cluster_uid:$cluster_uid::/home/$cluster_user:/bin/sh" >>"$CLUSTER/passwd"
        echo "$cluster_user:x:$cluster_uid:" >>"$CLUSTER/group"
        cluster_home "$CLUSTER/home"
        cluster_uid=$((cluster_uid + 1))
    done
    printf '127.0.0.1 localhost\n%s %s\n' 10.77.0.1 "$(hostname)" >"$CLUSTER/hosts"
    echo "hosts: files" >"$CLUSTER/nsswitch.conf" # no name server can be reached from here
    for cluster_k in $(seq "$1"); do echo "$(cluster_address "$cluster_k") n$cluster_k" >>"$CLUSTER/hosts"; done
    [ -d /etc/slurm ] || mkdir /etc/slurm
    mkdir -p /run/netns
    mount --bind "$CLUSTER/etc" /etc/slurm
    mount --bind "$CLUSTER/home" /home
    mount -t tmpfs none /run/netns
    for cluster_file in passwd group hosts nsswitch.conf; do mount --bind "$CLUSTER/$cluster_file" "/etc/$cluster_file"; done
}

cluster_home() # FOLDER: of $cluster_user in it
{
    mkdir -p "$1/$cluster_user"
    chown "$cluster_uid:$cluster_uid" "$1/$cluster_user"
    chmod 700 "$1/$cluster_user"
}

cluster_address() # K: of node nK
{
    if [ $cluster_net = yes ]; then echo "10.77.0.$((10 + $1))"; else echo 10.77.0.1; fi
}

# Times are short, so that a test sees in seconds what a site sees in minutes; 121 s of hold after a requeue are as on a site.
cluster_configure() # NODES LEAF GPUS
{
    {
        cat <<END
ClusterName=lockstep
SlurmctldHost=$(hostname)(10.77.0.1)
SlurmctldPort=6817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$CLUSTER/munge/socket
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool/%n
SlurmctldPidFile=$CLUSTER/run/slurmctld.pid
SlurmdPidFile=$CLUSTER/run/slurmd.%n.pid
SlurmctldLogFile=$CLUSTER/log/slurmctld.log
SlurmdLogFile=$CLUSTER/log/slurmd.%n.log
ProctrackType=$cluster_proctrack
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
GresTypes=gpu
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
ReturnToService=2
JobRequeue=1
InactiveLimit=0
KillWait=5
MinJobAge=600
MessageTimeout=10
TCPTimeout=2
SlurmctldTimeout=10
SlurmdTimeout=10
UnkillableStepTimeout=30
END
        printf %s "$cluster_lines"
        for cluster_k in $(seq "$1"); do
            echo "NodeName=n$cluster_k NodeHostname=n$cluster_k NodeAddr=$(cluster_address "$cluster_k")" \
                "Port=$((6900 + cluster_k)) CPUs=2 RealMemory=1000 Gres=gpu:$3 State=UNKNOWN"
        done
        [ $cluster_partitions = yes ] || echo "PartitionName=train Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE"
    } >"$CLUSTER/etc/slurm.conf"
    cluster_first=1 cluster_leafs=0
    while [ $cluster_first -le "$1" ]; do
        cluster_last=$((cluster_first + $2 - 1))
        [ $cluster_last -le "$1" ] || cluster_last=$1
        echo "SwitchName=leaf$cluster_leafs Nodes=n[$cluster_first-$cluster_last]"
        cluster_leafs=$((cluster_leafs + 1)) cluster_first=$((cluster_last + 1))
    done >"$CLUSTER/etc/topology.conf"
    echo "SwitchName=spine Switches=leaf[0-$((cluster_leafs - 1))]" >>"$CLUSTER/etc/topology.conf"
    # slurmd accepts only devices as GPUs: these are /dev/null under other names.
    mkdir -p "$CLUSTER/dev"
    for cluster_k in $(seq 0 $(($3 - 1))); do mknod -m 666 "$CLUSTER/dev/nvidia$cluster_k" c 1 3; done
    echo "NodeName=n[1-$1] Name=gpu File=$CLUSTER/dev/nvidia[0-$(($3 - 1))] Flags=nvidia_gpu_env" >"$CLUSTER/etc/gres.conf"
}

# A bridge for each leaf below that of the spine; a namespace with one link for each node.
cluster_network() # NODES LEAF
{
    for cluster_k in $(seq 0 $((($1 - 1) / $2))); do
        cat <<END
link add leaf$cluster_k type bridge
link add up$cluster_k type veth peer name down$cluster_k
link set up$cluster_k master leaf$cluster_k up
link set down$cluster_k master spine up
link set leaf$cluster_k up
END
    done | ip -batch -
    for cluster_k in $(seq "$1"); do
        ip netns add "n$cluster_k"
        ip -batch - <<END
link add n$cluster_k type veth peer name eth0 netns n$cluster_k
link set n$cluster_k master leaf$(((cluster_k - 1) / $2)) up
END
        ip -n "n$cluster_k" -batch - <<END
addr add 10.77.0.$((10 + cluster_k))/24 dev eth0
link set eth0 up
link set lo up
END
    done
}

cluster_up() # [--nodes N] [--leaf N] [--gpus N] [--net] [--private-home] [--proctrack TYPE] [--conf LINE]...
{
    cluster_nodes=4 cluster_leaf=2 cluster_gpus=2 cluster_net=no cluster_private=no cluster_lines='' cluster_partitions=no cluster_proctrack=proctrack/linuxproc
    while [ $# -gt 0 ]; do
        case $1 in
        --nodes) cluster_nodes=$2 && shift ;;
        --leaf) cluster_leaf=$2 && shift ;;
        --gpus) cluster_gpus=$2 && shift ;;
        --net) cluster_net=yes ;;
        --private-home) cluster_private=yes ;;
        --conf)
            cluster_lines="$cluster_lines$2
"
            case $2 in PartitionName=*) cluster_partitions=yes ;; esac
            shift
            ;;
        --proctrack) cluster_proctrack=proctrack/$2 && shift ;; # pgid: signals but SIGKILL reach only tasks, as with cgroup
        *) cluster_fails "cluster_up: unknown option $1" ;;
        esac
        shift
    done
    ip link add spine type bridge # also without --net: Slurm resolves no address where loopback is the only one
    ip addr add 10.77.0.1/24 dev spine
    ip link set spine up
    trap cluster_down EXIT # also of a controller that site.sh started
    cluster_files "$cluster_nodes"
    cluster_configure "$cluster_nodes" "$cluster_leaf" "$cluster_gpus"
    [ $cluster_net = no ] || cluster_network "$cluster_nodes" "$cluster_leaf"
    head -c 128 /dev/urandom >"$CLUSTER/munge/key"
    chmod 600 "$CLUSTER/munge/key"
    munged --key-file="$CLUSTER/munge/key" --socket="$CLUSTER/munge/socket" --log-file="$CLUSTER/log/munged.log" \
        --pid-file="$CLUSTER/run/munged.pid" --seed-file="$CLUSTER/munge/seed" || cluster_fails "munged does not start"
    slurmctld_start
    for cluster_k in $(seq "$cluster_nodes"); do node_boot "n$cluster_k"; done
    await nodes_are idle "$cluster_nodes" || cluster_fails "nodes are not idle after a minute"
}

# What it still runs would write into the folder that the test removes; the kernel ends the rest with the namespace.
cluster_down()
{
    for cluster_pid in "$CLUSTER"/run/n*.pid "$CLUSTER/run/munged.pid"; do
        kill -KILL "$(cat "$cluster_pid")" 2>/dev/null
    done
    kill -KILL "${slurmctld_pid-}" ${control:+$control} 2>/dev/null
    wait 2>/dev/null
    rm -rf "$TAP" 2>/dev/null
}

cluster_fails() # WHY: as the result of the test
{
    tail -n 30 "$CLUSTER"/log/* >&2
    sinfo -N -l >&2
    tap_result 1 "$1"
    done_testing
}

slurmctld_start()
{
    slurmctld -D >"$CLUSTER/log/slurmctld.out" 2>&1 &
    slurmctld_pid=$!
}

# The parent of the node's first process: SIGKILL to it ends the node's processes at once.  The first process waits, so that
# slurmd can be killed and started alone.
node_boot() # NODE
{
    mkdir -p "$CLUSTER/spool/$1" "$CLUSTER/homes/$1"
    cluster_uid=61001
    for cluster_user in ada bob; do
        [ $cluster_private = no ] || cluster_home "$CLUSTER/homes/$1"
        cluster_uid=$((cluster_uid + 1))
    done
    node_in=
    [ $cluster_net = no ] || node_in="nsenter --net=/run/netns/$1"
    # shellcheck disable=SC2086 # words, or none
    $node_in unshare --mount --uts --ipc --pid --fork --kill-child=KILL --mount-proc \
        sh -c '
            node=$1 cluster=$2
            hostname "$node"
            [ "$3" = no ] || mount --bind "$cluster/homes/$node" /home
            mount -t tmpfs -o size=256m,mode=1777 none /dev/shm
            mount -t tmpfs -o size=64m,mode=755 none /run
            slurmd -D -N "$node" &
            sleep 1000000000 & # process 1 reaps what is left to it
            wait' sh "$1" "$CLUSTER" $cluster_private >"$CLUSTER/log/$1.out" 2>&1 </dev/null &
    echo $! >"$CLUSTER/run/$1.pid"
}

node_pid() # NODE: of its process 1, as seen here; nothing if the node is down
{
    pgrep -P "$(cat "$CLUSTER/run/$1.pid")" 2>/dev/null
}

in_node() # NODE COMMAND...: as root on the node
{
    in_node_pid=$(node_pid "$1")
    shift
    nsenter --target "$in_node_pid" --mount --uts --ipc --net --pid "$@"
}

node_crash() # NODE
{
    kill -KILL "$(cat "$CLUSTER/run/$1.pid")"
}

node_is_gone() # NODE: no process of it is left
{
    [ -z "$(node_pid "$1")" ]
}

slurmd_pid() # NODE
{
    pgrep -x slurmd -P "$(node_pid "$1")"
}

slurmd_kill() # NODE
{
    kill -KILL "$(slurmd_pid "$1")"
}

slurmd_start() # NODE
{
    in_node "$1" slurmd -D -N "$1" >>"$CLUSTER/log/$1.out" 2>&1 </dev/null &
}

link_cut() { ip link set "$1" down; }
link_heal() { ip link set "$1" up; }
link_rate() # NODE|LEAF RATE: of its link, both ways; 0 lifts the limit
{
    case $1 in
    leaf*) set -- "$1" "$2" "up${1#leaf}" "down${1#leaf}" ;;
    *) set -- "$1" "$2" "$1" "$1:eth0" ;;
    esac
    for link_end in "$3" "$4"; do
        link_in=
        case $link_end in *:*) link_in="-n ${link_end%%:*}" ;; esac
        # shellcheck disable=SC2086 # words, or none
        tc $link_in qdisc del dev "${link_end#*:}" root 2>/dev/null
        # shellcheck disable=SC2086
        [ "$2" = 0 ] || tc $link_in qdisc add dev "${link_end#*:}" root tbf rate "$2" burst 64kb latency 50ms
    done
}

as() # USER COMMAND...: as on a login node of the cluster; $HOME is the working directory
{
    as_user=$1
    shift
    (cd "/home/$as_user" && exec setpriv --reuid="$as_user" --regid="$as_user" --clear-groups --no-new-privs \
        env -i PATH="$PATH" HOME="/home/$as_user" USER="$as_user" LOGNAME="$as_user" LOCKSTEP="$LOCKSTEP" \
        LOCKSTEP_CONFIG=/dev/null timeout -k 5 "${CLUSTER_LIMIT:-120}" "$@")
}

nodes_are() # STATE COUNT
{
    [ "$(timeout -k 1 5 sinfo -h -N -o '%N %T' | sort -u | grep -c " $1\$")" = "$2" ]
}

node_state() # NODE: such as idle, drained, down*
{
    timeout -k 1 5 sinfo -h -N -n "$1" -o %T | head -n 1
}

node_is() # NODE STATE
{
    [ "$(node_state "$1")" = "$2" ]
}

job_state() # JOB
{
    timeout -k 1 5 squeue -h -t all -j "$1" -o %T
}

job_is() # JOB STATE
{
    [ "$(job_state "$1")" = "$2" ]
}

job_nodes() # JOB: one a line
{
    timeout -k 1 5 scontrol show hostnames "$(timeout -k 1 5 squeue -h -t all -j "$1" -o %N)"
}
