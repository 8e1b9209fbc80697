#!/bin/sh
# Health checks of an idle node: ordered by the controller, run by the node's daemon in the background, ended by a prolog, by a job and
# by --stop within two seconds; results of `lockstep check --report` reach the controller; who may leave them there.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"
root=$TAP/shm state=$TAP/agents daemon=''
trap 'kill -9 $control $daemon 2>/dev/null; rm -rf "$TAP"' EXIT
mkdir -p -m 700 "$root" "$state"

# A node with eight GPUs that nobody uses.
echo "nvml.count value 8
cuda.*.multiprocessors value 4
cuda.*.free value 1048576" >"$TAP/fake"
"$LOCKSTEP" bench agent --tree "$TAP/tree" >/dev/null
mkdir -p "$TAP/tree/usr/lib"
for library in libnvidia-ml.so.1 libcuda.so.1; do ln -s "$BUILD/src/device/$library" "$TAP/tree/usr/lib/$library"; done
export LOCKSTEP_FAKE_DEVICE="$TAP/fake" LOCKSTEP_AGENT_STATE="$state"

daemon_start() # OPTION...
{
    LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" agent --every-run --every-root "$root" --state "$state" \
        --node n1 --control "$url" --sysroot "$TAP/tree" --no-node-sensors "$@" 2>>"$TAP/daemon.err" &
    daemon=$!
}
daemon_stop() { kill -TERM $daemon; wait $daemon 2>/dev/null; }
check() { "$LOCKSTEP" check --sysroot "$TAP/tree" "$@"; }
node() { show api/v1/nodes/n1 >"$TAP/node"; }
known() { node && grep -q '"node":"n1"' "$TAP/node"; }
has_row() { node && grep -Eq "$1" "$TAP/node"; }
ask() # OPTION...: what came of it is in $TAP/out
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" request verify --control "$url" "$@" n1 >"$TAP/out" 2>"$TAP/err"
}
closed() { show "api/v1/nodes/n1/requests?id=$1" >"$TAP/request" && grep -q '"open":false' "$TAP/request"; }
running() { grep -q "checks of stage $1 begin" "$TAP/daemon.err" && ! flock -n "$state/checks/running" true; }

site_start --verify-age 0s
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >/dev/null
install -m 600 "$site/nodes/n1.token" "$state/node.token"
exits 0 "without a daemon the checks are done" check --report
has "and the results are not reported" 'the results are not reported: .*checks: ' "$TAP/err"
daemon_start
await known
tap_result $? "a node is known by its token"

# By hand, or by a prolog.
exits 0 "results are reported" check --report
await has_row '"stage":"quick","name":"all"'
tap_result $? "and reach the controller"
await has_row '"life":\{"state":"checked"'
tap_result $? "so that the node counts as checked"
show metrics >"$TAP/metrics"
has "as a metric, too" '^lockstep_node_check_time_seconds\{node="n1",stage="quick",state="ok"\} [0-9]+\.' "$TAP/metrics"
is "one row for each name that is ok" "$(python3 -c '
import json, sys
rows = [(c["stage"], c["name"], c["device"]) for c in json.load(open(sys.argv[1]))["checks"]]
print(len(rows) == len(set(rows)) and all(not device for stage, name, device in rows if stage == "quick"))' "$TAP/node")" True
is "the report is gone" "$(find "$state/checks" -name '*.lsf')" ""
echo "3,2,2000000,-;NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU has fallen off the bus." >>"$TAP/tree/dev/kmsg"
exits 1 "a check that fails" check --report --for prolog
await has_row '"stage":"quick","name":"kmsg","device":"[^"]*","state":"failed"|"name":"kmsg"[^}]*"state":"failed"'
tap_result $? "is evidence of root's side"
await has_row '"life":\{"state":"suspect"'
tap_result $? "that makes the node suspect"
sed -i '/Xid/d' "$TAP/tree/dev/kmsg"

# What many nodes fail is a fault of the site: a prolog lets jobs run, and people see it.
echo "3,2,2000000,-;NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU has fallen off the bus." >>"$TAP/tree/dev/kmsg"
numbers=0
for other in n8 n9; do
    numbers=$((numbers + 1))
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token $other >/dev/null
    "$BUILD/test/node-frames" stage $other failed $numbers quick kmsg >"$TAP/body"
    is "another node fails the same" "$(status -K "$(bearer "$site/nodes/$other.token")" --data-binary @"$TAP/body" "$api/nodes/$other/frames")" 200
done
await grep -qx kmsg "$state/checks/site-faults"
tap_result $? "a daemon hears that the site is at fault"
exits 0 "the prolog does not fail for it" check --for prolog
has "and says why" 'kmsg .*many nodes fail this check now: a fault of the site' "$TAP/out"
exits 1 "a person sees that it failed" check
sed -i '/Xid/d' "$TAP/tree/dev/kmsg"

# Ordered.
exits 2 "a stage that there is not" env LOCKSTEP_STATE="$site" "$LOCKSTEP" request verify --control "$url" --stage none n1
for role in reader launch; do
    is "the $role token may not ask for it" "$(status -K "$(bearer "$site/tokens/$role.token")" -d '{"kind":"verify","stage":"quick"}' "$api/nodes/n1/requests")" 403
done
is "a request without a stage is refused" "$(status -K "$(bearer "$site/tokens/admin.token")" -d '{"kind":"verify"}' "$api/nodes/n1/requests")" 400
ask --stage quick
is "checks are ordered, and done" $? 0
has "which is said with the verdict" '^node n1: done: stage quick: ok$' "$TAP/out"
lacks "a node has no steps" 'end of step' "$TAP/err"
await has_row '"life":\{"state":"checked"'
tap_result $? "they answer what spoke against the node"
lacks "of which nothing is left" '"state":"failed"' "$TAP/node"

# Ended, by a prolog, by --stop, and by a job that nobody announced.
ask --wait 0s --stage deep
id=$(cat "$TAP/out")
await running deep
tap_result $? "checks run in the background"
is "they are the first to end when memory is short" "$(cat "/proc/$(pgrep -f "check --background --stage=deep --node=n1 --agent-state=$state" | head -n 1)/oom_score_adj")" 900
exits 3 "one at a time" check --background --stage quick
began=$(date +%s%N)
exits 0 "the prolog has its own checks" check --for prolog
has "and ends those" 'ended a check that ran in the background' "$TAP/err"
await closed "$id"
has "which is their outcome" '"result":"not-executed".*ended: another check, or a prolog, needed the node' "$TAP/request"
lacks "nothing of them is reported" '"stage":"deep"' "$TAP/node"
exits 3 "for a while none begins" check --background --stage quick
has "with the reason" 'the node was needed [0-9]+ s ago' "$TAP/err"
touch -d '1 hour ago' "$state/checks/running"

: >"$TAP/daemon.err"
ask --wait 0s --stage deep
await running deep
python3 - "$LOCKSTEP" "$state" >"$TAP/out" <<'END_OF_PYTHON'
import subprocess, sys, time
begin = time.monotonic()
done = subprocess.run([sys.argv[1], "check", "--stop", "--agent-state", sys.argv[2]], stdout=subprocess.PIPE, text=True)
free = subprocess.run(["flock", "-n", sys.argv[2] + "/checks/running", "true"]).returncode == 0
print(done.stdout.strip(), done.returncode, "free" if free else "held", "in time" if time.monotonic() - begin < 2.5 else "late")
END_OF_PYTHON
is "--stop ends them within two seconds, with all processes" "$(cat "$TAP/out")" "ended 0 free in time"
exits 0 "and a second time there is nothing to end" check --stop
touch -d '1 hour ago' "$state/checks/running"

job() { mkdir -p "$TAP/tree/proc/777" && echo "777 (slurmstepd) S 1 777 777 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 9 0 0" >"$TAP/tree/proc/777/stat"; }
: >"$TAP/daemon.err"
ask --wait 0s --stage deep
id=$(cat "$TAP/out")
await running deep
job
await closed "$id"
has "a job of Slurm's ends them" '"result":"not-executed".*a Slurm job is on this node' "$TAP/request"
ask --stage quick
is "while it is there none begins" $? 1
has "with the reason" 'n1: not-executed: a Slurm job is on this node' "$TAP/out"
rm -r "$TAP/tree/proc/777"

# The daemon is killed: its checks end with it, and are not begun again.
: >"$TAP/daemon.err"
ask --wait 0s --stage deep
id=$(cat "$TAP/out")
await running deep
kill -9 $daemon
wait $daemon 2>/dev/null
await flock -n "$state/checks/running" true
tap_result $? "checks end with the daemon"
daemon_start
await closed "$id"
has "and are not begun again" '"result":"unknown"' "$TAP/request"

# By themselves, when a node was never checked as a whole; not if its daemon must not.
daemon_stop
kill -9 $control
wait $control 2>/dev/null
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#http://}" --verify-age 7d --verify-stage quick 2>>"$TAP/control.err" &
control=$!
await curl -sf "$url/healthz"
other_start() # NODE OPTION...: another node of the same kind
{
    state=$TAP/$1
    mkdir -m 700 "$state"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token "$1" >/dev/null
    install -m 600 "$site/nodes/$1.token" "$state/node.token"
    daemon_start --node "$@"
}
other_start n2
other_row() { show "api/v1/nodes/$1" >"$TAP/node" && grep -Eq "$2" "$TAP/node"; }
await other_row n2 '"stage":"quick","name":"all"'
tap_result $? "a node that was never checked as a whole is checked"
has "by an order of the controller" '"action":"verify","state":"ordered".*it never had a complete check' "$TAP/node"
await other_row n2 '"result":"done".*stage quick: ok'
tap_result $? "which is done"
daemon_stop
other_start n3 --no-verify
await other_row n3 'this node is not put to the test'
tap_result $? "a daemon with --no-verify refuses"
is "one that was just checked is not checked again" "$(show api/v1/nodes/n1 | grep -c 'never checked')" 0
kill -9 $control
wait $control 2>/dev/null
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#http://}" 2>>"$TAP/control.err" &
control=$!
await curl -sf "$url/healthz"
lacks "the site's log replays byte for byte" 'differently' "$TAP/control.err"

# Nobody else can leave results there.
is "the directory of reports is root's" "$(stat -c %a "$state/checks")" 700
done_testing
