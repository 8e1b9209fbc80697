#!/bin/sh
# DistributedDataParallel on gloo, one launcher in each of three network namespaces.  A rank is killed: standby processes of both nodes
# become the ranks.  A node is cut off: its ranks end, the other node says why its own are ended, and a spare takes the place.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/nodes.sh"

[ "$(id -u)" = 0 ] || skip_all "network namespaces need root"
python=
for one in ${LOCKSTEP_PYTHON:-} python3 /usr/bin/python3; do
    [ -z "$python" ] && "$one" -c 'import torch' 2>/dev/null && python=$one
done
[ -n "$python" ] || skip_all "no torch here"
space=lockstep-t$$
ip netns add $space-hub 2>/dev/null || skip_all "network namespaces cannot be made here"
leave()
{
    for node in n1 n2 n3; do
        pid=$(launcher ddp $node 2>/dev/null)
        [ -z "$pid" ] || [ -s "$TAP/ddp/$node.status" ] || kill "$pid" 2>/dev/null
    done
    wait
    for i in hub 1 2 3; do ip netns del $space-$i 2>/dev/null; done
    rm -rf "$TAP"
}
trap leave EXIT
ip -n $space-hub link add bridge type bridge 2>/dev/null || skip_all "bridges cannot be made here"
ip -n $space-hub link set bridge up
for i in 1 2 3; do
    ip netns add $space-$i
    ip -n $space-$i link set lo up
    ip -n $space-hub link add port$i type veth peer name eth0 netns $space-$i
    ip -n $space-hub link set port$i master bridge up
    ip -n $space-$i address add 192.0.2.$i/24 dev eth0
    ip -n $space-$i link set eth0 up
done

cat >"$TAP/train.py" <<'END'
import os, signal, sys, time
warm = "torch" in sys.modules
import torch
import torch.distributed as dist
here, rank, attempt = sys.argv[1], int(os.environ["RANK"]), int(os.environ["LOCKSTEP_RESTART"])
for name in os.listdir(here):  # a rank of an earlier attempt must not live
    if name.startswith("pid.") and int(name.split(".")[1]) < attempt:
        try:
            with open("/proc/%s/stat" % open(os.path.join(here, name)).read()) as stat:
                if stat.read().rsplit(") ", 1)[1][0] not in "ZX":
                    open(os.path.join(here, "overlap"), "a").write("%s lives in attempt %d\n" % (name, attempt))
        except OSError:
            pass
with open(os.path.join(here, "pid.%d.%d.%s" % (attempt, rank, os.environ["LOCKSTEP_NODE"])), "w") as out:
    out.write(str(os.getpid()))
dist.init_process_group("gloo")
print("attempt", attempt, "warm" if warm else "cold", flush=True)
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
saved, first = os.path.join(here, "saved.pt"), 0
if os.path.exists(saved):
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    first = state["step"]
    print("loaded step", first, flush=True)
for step in range(first, first + 40 if attempt >= 2 else 1000000):
    model(torch.randn(4, 8)).sum().backward()
    time.sleep(0.05)  # a step takes time
    if rank == 0 and step % 5 == 4:
        torch.save({"model": model.state_dict(), "step": step + 1}, saved + ".new")
        os.replace(saved + ".new", saved)
    if attempt == 0 and rank == 1 and os.path.exists(os.path.join(here, "kill")):
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        open(os.path.join(here, "step.%d.%d" % (attempt, step - first)), "w").close()
print("ended", flush=True)
END
unset LOCKSTEP_CONTROL LOCKSTEP_TOKEN_FILE
export LOCKSTEP_JOB_KEY=7d9c0f6be1a24c1e8f33
LOCKSTEP_WARM_HURRY=1 # else a standby takes a fifth of a processor
GLOO_SOCKET_IFNAME=eth0
export LOCKSTEP_WARM_HURRY GLOO_SOCKET_IFNAME
mkdir "$TAP/ddp"
ddp() # NODE-NUMBER
{
    {
        LOCKSTEP_STATE=$TAP/ddp/n$1 ip netns exec $space-$1 timeout -k 5 240 "$LOCKSTEP" run --name ddp --nnodes 2 --node n$1 -n 1 --warm \
            --max-restarts 9 --backoff 0s --grace 2s --rdzv-endpoint 192.0.2.1:7001 -- "$python" "$TAP/train.py" "$TAP/ddp" \
            >"$TAP/ddp/n$1.out" 2>"$TAP/ddp/n$1.err"
        echo $? >"$TAP/ddp/n$1.status"
    } &
}
ready() { [ -e "$TAP/ddp/$1/runs/ddp/nodes/$1/warm.ready" ]; }
ddp 1
ddp 2
await ready n1 || await ready n1 || await ready n1 # torch is large
await ready n2 || await ready n2
tap_result $? "both nodes have a standby process"
ddp 3
await grep -q joined "$TAP/ddp/n3.err"
touch "$TAP/ddp/kill"
await test -e "$TAP/ddp/step.1.10" || await test -e "$TAP/ddp/step.1.10"
tap_result $? "after a rank was killed both nodes train again"
has "the first with its standby process" 'attempt 1 warm' "$TAP/ddp/n1.out"
has "the other, too" 'attempt 1 warm' "$TAP/ddp/n2.out"
ip -n $space-hub link set port2 down
await ended ddp n1 n3 || await ended ddp n1 n3
is "after a node was cut off the run ends well" "$(cat "$TAP/ddp/n1.status" "$TAP/ddp/n3.status" | tr '\n' ' ')" '0 0 '
has "the other node says why its ranks were ended" 'node n2 is lost: no sign of life for 4.2 s; ending the ranks of attempt 1' "$TAP/ddp/n1.err"
has "the spare has the ranks of the lost one" 'attempt 2: ranks 1 to 1 of 2 on n3' "$TAP/ddp/n3.err"
has "from the newest checkpoint" 'loaded step' "$TAP/ddp/n3.out"
has "the node that was cut off has ended its ranks" 'the controller has not answered for .*ending the ranks' "$TAP/ddp/n2.err"
kill -TERM "$(launcher ddp n2)"
await ended ddp n2
is "no rank met one of an earlier attempt" "$(cat "$TAP/ddp/overlap" 2>/dev/null)" ''
LOCKSTEP_STATE=$TAP/ddp/n1 "$LOCKSTEP" why ddp >"$TAP/out" 2>"$TAP/err"
has "why has the parts of both restarts" 'restart 2: attempt 1 ended: node n2 is lost' "$TAP/out"
sed -n 's/^  first new step/# first new step/p' "$TAP/out"
[ $tap_failed = 0 ] || tail -n 12 "$TAP"/ddp/n?.err "$TAP"/ddp/n?.out >&2
gone() { ! pgrep -f "$TAP/train.py" >/dev/null; }
await gone
tap_result $? "nothing is left running"
done_testing
