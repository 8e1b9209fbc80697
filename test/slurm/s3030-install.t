#!/bin/sh
# `lockstep slurm install` on a real Slurm: its lines are taken as they are, jobs are observed without a change by their users, and a
# node that fails a check gets no further job: found by the health check, by the prolog and never on all nodes at once; it comes back after its checks passed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
cluster_up --nodes 4

[ -d /etc/lockstep ] || mkdir /etc/lockstep
# Each node has a kernel log, and a /var/lib, of its own.
for node in n1 n2 n3 n4; do
    : >"$TAP/kmsg-$node"
    in_node $node mount --bind "$TAP/kmsg-$node" /dev/kmsg
    in_node $node mount -t tmpfs none /var/lib
    in_node $node mount -t tmpfs none /etc/lockstep # with the kill switch
done
gpu_falls_off() # NODE
{
    echo "3,1,$(awk '{ printf "%d", $1 * 1000000 }' /proc/uptime),-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus." >"$TAP/kmsg-$1"
}
repaired() { : >"$TAP/kmsg-$1"; } # NODE
reason() { scontrol show node "$1" | sed -n 's/^ *Reason=\(.*\) \[.*/\1/p'; }
usable() { case $(node_state "$1") in idle*) ;; *) return 1 ;; esac; }
drained() { case $(node_state "$1") in drain*) ;; *) return 1 ;; esac; }
install="$LOCKSTEP slurm install --dir /etc/slurm/lockstep"

exits 0 "a dry run prints what is wanted" $install --dry-run
has "as lines of slurm.conf" '^Prolog=/etc/slurm/lockstep/prolog$' "$TAP/out"
has "with what is there already" '^SchedulerParameters=sched_min_interval=0,.*,nohold_on_prolog_fail$' "$TAP/out"
has "each with its reason" '^# add: a node that fails a check gets no ranks' "$TAP/out"
has "what only later versions have is named" '^# SlurmctldParameters=enable_expedited_requeue: this is Slurm 22.05' "$TAP/out"
has "and which rights are needed" '^# +operator +drain, undrain, down of a node' "$TAP/out"
lacks "everything else is a comment" '^[^#A-Z]' "$TAP/out"
[ ! -e /etc/slurm/lockstep ]
tap_result $? "and writes nothing"
exits 2 "a directory that Slurm could not name is refused" "$LOCKSTEP" slurm install --dir "/etc/slurm/a b"

mkdir /home/ada/bin
cp "$LOCKSTEP" /home/ada/bin/lockstep
chown -R ada: /home/ada/bin
exits 1 "a program that a user can replace is not started as root" /home/ada/bin/lockstep slurm install --dir /etc/slurm/lockstep
has "with the path" 'others than root can change /home/ada' "$TAP/err"

exits 0 "it writes the programs" $install
has "and says what is left to a person" 'add to the end of /etc/slurm/slurm.conf.*Include /etc/slurm/lockstep/lockstep.conf' "$TAP/err"
echo "Include /etc/slurm/lockstep/lockstep.conf" >>/etc/slurm/slurm.conf
scontrol reconfigure
configured() { scontrol show config | grep -q '^TaskProlog *= /etc/slurm/lockstep/task-prolog'; }
await configured
exits 0 "with these lines" $install --dry-run --json
python3 -c '
import json, sys
lines = json.load(open(sys.argv[1]))["lines"]
assert len(lines) > 10 and {l["state"] for l in lines} <= {"ok", "advice", "needs-newer"}, lines
' "$TAP/out"
tap_result $? "nothing is left to be changed"

# Users change nothing.
as ada srun -N1 -w n4 env >"$TAP/env"
has "a job of srun has a run of its own" '^LOCKSTEP_RUN=job-[0-9]+$' "$TAP/env"
has "and a place for its records" '^LOCKSTEP_DIR=/dev/shm/lockstep-61001/job-[0-9]+$' "$TAP/env"
has "Python finds the hooks" '^PYTHONPATH=/.*site' "$TAP/env"
as ada env LOCKSTEP_ATTACH=0 srun -N1 -w n4 env >"$TAP/env"
lacks "a user who wants none of it gets none" '^LOCKSTEP_RUN=' "$TAP/env"
cat >/home/ada/steps.sh <<'END'
#!/bin/sh
echo "$LOCKSTEP_RUN" >batch
srun sh -c 'echo $LOCKSTEP_RUN >first'
srun sh -c 'echo $LOCKSTEP_RUN >second; mkdir -p $LOCKSTEP_DIR; : >$LOCKSTEP_DIR/ring; ln -s /etc/slurm /dev/shm/lockstep-$(id -u)/job-$SLURM_JOB_ID.7'
END
job=$(as ada sbatch --parsable -N1 -w n4 -o /dev/null steps.sh)
await job_is "$job" COMPLETED
is "each step of a job is a run" "$(cat /home/ada/batch /home/ada/first /home/ada/second | tr '\n' ' ')" "job-$job job-$job job-$job.1 "
gone() { [ -z "$(in_node n4 ls /dev/shm/lockstep-61001)" ]; }
await gone
tap_result $? "what a job leaves in shared memory is removed"
[ -s /etc/slurm/slurm.conf ]
tap_result $? "and nothing that its links lead to"

# The health check.  Every second instead of every five minutes.
echo "HealthCheckInterval=1" >>/etc/slurm/slurm.conf
scontrol reconfigure
gpu_falls_off n2
await drained n2
tap_result $? "an idle node that fails a check is drained"
is "with the check, and an id" "$(reason n2 | sed 's/c-[0-9a-f]*$/ID/')" "lockstep: node-fault check-kmsg ID"
repaired n2
await usable n2
tap_result $? "and given back when its checks pass again"

in_node n3 touch /etc/lockstep/act.off
gpu_falls_off n3
sleep 6 # nothing shall happen meanwhile: three checks
usable n3
tap_result $? "the kill switch keeps it in service"
in_node n3 rm /etc/lockstep/act.off
await drained n3
scontrol update nodename=n3 state=drain reason='waiting for a new GPU'
repaired n3
sleep 6 # three checks
is "a node whose reason a person changed is not given back" "$(reason n3)" "waiting for a new GPU"
scontrol update nodename=n3 state=undrain

# The same fault on all nodes is none of theirs.
for node in n1 n2 n3 n4; do gpu_falls_off $node; done
one_is_drained() { [ "$(sinfo -h -N -R -o %n | sort -u | wc -l)" -ge 1 ]; }
await one_is_drained
sleep 6 # three checks
is "of four nodes with the same fault one is drained" "$(sinfo -h -N -R -o '%n %E' | grep -c 'lockstep: ')" 1
for node in n1 n2 n3 n4; do repaired $node; done
all_usable() { for node in n1 n2 n3 n4; do usable $node || return 1; done; }
await all_usable
tap_result $? "all come back"

# The prolog, without the health check.
sed -i 's/^HealthCheckInterval=1$/HealthCheckInterval=0/' /etc/slurm/slurm.conf
scontrol reconfigure
gpu_falls_off n1
job=$(as ada sbatch --parsable -N1 -o /dev/null --wrap 'exec hostname >where')
delayed() { [ "$(timeout 5 squeue -h -j "$job" -o '%T %r')" = "PENDING BeginTime" ]; }
await delayed
tap_result $? "a job whose node fails its check is started again, and not held"
scontrol update jobid="$job" starttime=now
await job_is "$job" COMPLETED
is "on another node" "$(cat /home/ada/where)" n2
is "the node is drained with the check" "$(reason n1 | sed 's/c-[0-9a-f]*$/ID/')" "lockstep: node-fault check-kmsg ID"
done_testing
