#!/bin/sh
# A node that is drained because of a GPU that must be reset, or of a node that must be rebooted, is repaired if its administrator and the
# site's allowed that, and not while a process holds the GPU or a job is on the node.  nvidia-smi and systemctl are root's own, which note
# what they were asked for.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/t/site.sh"
trap cluster_down EXIT

mkdir -m 755 "$TAP/sbin" # of this test and its nodes alone
cp -a /usr/sbin/. "$TAP/sbin"
mount --bind "$TAP/sbin" /usr/sbin
mount -t tmpfs none /usr/local/sbin # tools there are not asked
mkdir -m 700 "$TAP/kmsg"
for tool in nvidia-smi systemctl; do
    printf '#!/bin/sh\necho local %s >>"%s"\n' $tool "$TAP/deeds" >/usr/local/sbin/$tool
    rm -f /usr/sbin/$tool
    cat >/usr/sbin/$tool <<END
#!/bin/sh
echo "$tool \$*" >>"$TAP/deeds"
[ ! -e "$TAP/tool-fails" ] || { echo "GPU could not be reset"; exit 15; }
echo "All done."
END
    chmod 755 /usr/local/sbin/$tool /usr/sbin/$tool
done
: >"$TAP/deeds"
cluster_up --nodes 3
daemon_start() # NODE OPTION...
{
    daemon_node=$1
    shift
    [ -d "$TAP/agent-$daemon_node" ] || {
        mkdir -m 700 "$TAP/agent-$daemon_node"
        mkfifo "$TAP/kmsg/$daemon_node"
        LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token "$daemon_node" >/dev/null
        install -m 600 "$site/nodes/$daemon_node.token" "$TAP/agent-$daemon_node/node.token"
    }
    in_node "$daemon_node" env LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token" "$LOCKSTEP" agent --every-run \
        --state "$TAP/agent-$daemon_node" --node "$daemon_node" --control "$url" --kmsg "$TAP/kmsg" "$@" \
        >>"$TAP/agent-$daemon_node.err" 2>&1 </dev/null &
}
again() # OPTION...: the controller is started again, at the same address
{
    kill -9 $control
    wait $control 2>/dev/null
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#http://}" "$@" 2>>"$TAP/control.err" &
    control=$!
    await curl -sf "$url/healthz"
}
kernel() # NODE LINE
{
    echo "3,1,$(awk '{ printf "%.0f", $1 * 1000000 }' /proc/uptime),-;$2" >"$TAP/kmsg/$1"
}
life_is() { [ "$(show "api/v1/nodes/$1" | sed -n 's/.*"life":{"state":"\([^"]*\)".*/\1/p')" = "$2" ]; }
told() { show "api/v1/nodes/$1" >"$TAP/node" && grep -Eq "$2" "$TAP/node"; }
outcome() { grep -Eq "order .*: $2" "$TAP/agent-$1.err"; }
deeds() { tr '\n' '|' <"$TAP/deeds"; }

exits 2 "only two repairs are known" "$LOCKSTEP" control --repair burn
has "and named" 'expected reset-gpu or reboot' "$TAP/err"

# Dry run: both sides must have allowed it.
site_start --act --drain-share 100 --drains 20 --verify-at-once 0
for node in n1 n2 n3; do daemon_start $node --repair reset-gpu --repair reboot; done
for node in n1 n2 n3; do await told $node "\"node\":\"$node\""; done
kernel n1 "NVRM: Xid (PCI:0000:3b:00): 119, pid=1234, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
await life_is n1 out
tap_result $? "a GPU that must be reset takes its node out"
await told n1 '"action":"reset-gpu","state":"dry-run".*--repair reset-gpu was not given'
tap_result $? "without --repair the reset is a dry run"
is "and nothing is done" "$(deeds)" ''

# The site allows it; a process holds the GPU.
in_node n1 sh -c 'mkdir /run/dev; mknod /run/dev/nvidia0 c 1 3; mknod -m 666 /run/dev/null c 1 3
    exec unshare --mount sh -c "mount --bind /run/dev /dev; exec sleep 1000 </dev/nvidia0"' >/dev/null 2>&1 &
held() { in_node n1 pgrep -x sleep -a | grep -q 'sleep 1000$'; }
await held
again --act --drain-share 100 --drains 20 --verify-at-once 0 --repair reset-gpu
await outcome n1 'not-executed: process [0-9]+ \(sleep\) holds a GPU'
tap_result $? "a GPU that a process holds is not reset"
is "nothing was done" "$(deeds)" ''
in_node n1 pkill -x -f 'sleep 1000'

# A job is on the node: it is draining, and the reset waits.
job=$(as bob sbatch --parsable -N1 -w n2 -o /dev/null --wrap 'exec sleep 1000')
await job_is "$job" RUNNING
kernel n2 "NVRM: Xid (PCI:0000:5e:00): 119, pid=1234, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
await outcome n2 '(not-executed|refused): '
tap_result $? "a node with a job is not touched"
is "the job goes on" "$(job_state "$job")" RUNNING
is "still nothing was done" "$(deeds)" ''
as bob scancel "$job"

# Nobody is there: another fault of it.
freed() { [ "$(node_state n2)" = drained ]; }
await freed
kernel n2 "NVRM: Xid (PCI:0000:5d:00): 119, pid=1234, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
await grep -q . "$TAP/deeds"
is "the GPU of the finding is reset" "$(deeds)" 'nvidia-smi --gpu-reset -i 00000000:5d:00.0|'
await outcome n2 'done: GPU 00000000:5d:00.0 was reset: All done'
tap_result $? "and the outcome says so"
is "the node is still drained: its checks decide" "$(node_state n2)" drained

# A reboot needs its own permission.
kernel n3 "NVRM: Xid (PCI:0000:86:00): 79, pid=1234, name=python, GPU has fallen off the bus."
await told n3 '"action":"reboot","state":"dry-run".*--repair reboot was not given'
tap_result $? "a permission to reset is none to reboot"
: >"$TAP/deeds"
: >"$site/act.off"
mode_is() { show api/v1/node-states | grep -q "\"mode\":\"$1\""; }
again --act --drain-share 100 --drains 20 --verify-at-once 0 --repair reset-gpu --repair reboot
await mode_is off
kernel n3 "NVRM: Xid (PCI:0000:87:00): 79, pid=1234, name=python, GPU has fallen off the bus."
await told n3 '"action":"reboot","state":"dry-run".*the kill switch is on'
tap_result $? "the kill switch forbids it"
is "and nothing is done" "$(deeds)" ''
rm "$site/act.off"
await mode_is act
await grep -q . "$TAP/deeds"
is "then the node is rebooted" "$(deeds)" 'systemctl reboot|'
await outcome n3 'done: the reboot has begun'
tap_result $? "once"

# A tool that fails, and one that others may change.
: >"$TAP/deeds"
: >"$TAP/tool-fails"
kernel n2 "NVRM: Xid (PCI:0000:5f:00): 119, pid=1234, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
await outcome n2 'failed: .*nvidia-smi exited with 15: GPU could not be reset'
tap_result $? "a tool that fails is reported with its words"
is "and not asked again" "$(deeds)" 'nvidia-smi --gpu-reset -i 00000000:5f:00.0|'
[ $tap_failed = 0 ] || {
    cat "$TAP"/agent-*.err "$TAP/control.err" "$TAP/node"
} >&2
done_testing
