#!/bin/sh
# A link that is really slow: ranks in two network namespaces, and after a while a rate limit on the pair of
# devices between them.  Needs root and a kernel that may do that.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

[ "$(id -u)" = 0 ] || skip_all "network namespaces need root"
command -v ip >/dev/null && command -v tc >/dev/null || skip_all "no ip or tc here (iproute2)"
name=ls$$
clean()
{
    ip netns del ${name}a 2>/dev/null
    ip netns del ${name}b 2>/dev/null # and the pair of devices with them
}
trap 'clean; rm -rf "$TAP"' EXIT
{
    ip netns add ${name}a && ip netns add ${name}b &&
        ip link add ${name}x netns ${name}a type veth peer name ${name}y netns ${name}b &&
        ip -n ${name}a addr add 169.254.77.1/30 dev ${name}x &&
        ip -n ${name}b addr add 169.254.77.2/30 dev ${name}y &&
        for at in "a lo" "a ${name}x" "b lo" "b ${name}y"; do
            # shellcheck disable=SC2086 # two words
            set -- $at
            ip -n $name$1 link set $2 up || exit 1
        done
} >"$TAP/net" 2>&1 || skip_all "no network namespaces here: $(head -1 "$TAP/net")"

# Half of the ranks in each, as the nodes of the run are.  The limit comes when training is warm.
cat >"$TAP/rank" <<'END'
#!/bin/sh
side=a
[ "$RANK" -lt 2 ] || side=b
MASTER_ADDR=169.254.77.1
export MASTER_ADDR
if [ "$RANK" = 0 ]; then
    (
        until grep -q '^step [2-9][0-9]' "$LOCKSTEP_STATE/runs/slow/out/rank-0.log"; do
            sleep 0.1
        done
        for end in "a x" "b y"; do
            set -- $end
            tc -n "$NAME$1" qdisc add dev "$NAME$2" root tbf rate 4mbit burst 4kb latency 2s
        done
    ) >"$LIMIT" 2>&1 &
fi
exec ip netns exec "$NAME$side" "$LOCKSTEP" trainer --steps 60 --step-ms 60 --host-work-ms 1
END
chmod +x "$TAP/rank"
NAME=$name LIMIT=$TAP/limit
export NAME LIMIT LOCKSTEP
slow_link()
{
    tc -n ${name}a qdisc del dev ${name}x root 2>/dev/null # of a trial before
    tc -n ${name}b qdisc del dev ${name}y root 2>/dev/null
    timed_ok "trains over a link that becomes slow" 100 "$LOCKSTEP" run -n 4 --nodes 2 --name slow -- "$TAP/rank" || return
    [ ! -s "$TAP/limit" ]
    tap_result $? "the limit was set"
    "$LOCKSTEP" why slow --json >"$TAP/out" 2>"$TAP/err"
    timed_result $(($? != 1)) "and that is said"
    python3 -c '
import json, sys
for verdict in json.load(open(sys.argv[1]))["verdicts"]:
    print(verdict["kind"], verdict["layer"], verdict["ranks"], verdict["cause"])
    if verdict["kind"] == "sync-stall" and verdict["layer"] == "fabric" and not verdict["ranks"]:
        sys.exit(0)
sys.exit(1)' "$TAP/out" >"$TAP/said" 2>&1
    timed_result $? "as a sync-stall of the fabric"
    ok "the log says it again" "$LOCKSTEP" why --replay slow
}
timed slow_link
done_testing
