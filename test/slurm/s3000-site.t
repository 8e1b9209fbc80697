#!/bin/sh
# The site's controller takes a node that is proven faulty out of a real Slurm, and gives it back after its checks have passed: dry run,
# --act, the kill switch, budgets, a node that somebody else drained, a controller that is killed in the middle, and no rights.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/slurm/cluster.sh"
. "$SOURCE/test/t/site.sh"
trap cluster_down EXIT
cluster_up --nodes 5

again() # OPTION...: the controller is started again, at the same address
{
    kill -9 $control
    wait $control 2>/dev/null
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#http://}" "$@" 2>>"$TAP/control.err" &
    control=$!
    await curl -sf "$url/healthz"
}
numbers=1
send() # NODE WORD...: frames of its root daemon
{
    send_node=$1
    shift
    "$BUILD/test/node-frames" "$@" >"$TAP/body"
    numbers=$((numbers + 1))
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token "$send_node" >/dev/null
    [ "$(status -K "$(bearer "$site/nodes/$send_node.token")" --data-binary @"$TAP/body" "$api/nodes/$send_node/frames")" = 200 ]
}
fault() { send "$1" findings "$1" 0 $numbers 1; }                    # NODE
checked() { send "$1" stage "$1" "$2" $numbers "${3-prolog}" all; }   # NODE STATE [STAGE]
life() { show "api/v1/nodes/$1" | sed -n 's/.*"life":{"state":"\([^"]*\)".*/\1/p'; }
life_is() { [ "$(life "$1")" = "$2" ]; }
reason() { scontrol show node "$1" | sed -n 's/^ *Reason=\(.*\) \[.*/\1/p'; }
drained() { [ "$(sinfo -h -N -n "$1" -o %T)" = drained ] || [ "$(sinfo -h -N -n "$1" -o %T)" = draining ]; }
logged() { grep -Eq "$1" "$TAP/control.err"; }
decided() { show "api/v1/nodes/$1" | grep -Eq "$2"; }

# A dry run says what it would do.
site_start
for node in n1 n2 n3 n4; do checked $node ok; done
fault n1
await life_is n1 suspect
tap_result $? "a fatal finding of root's daemon makes a node suspect"
await decided n1 '"action":"drain","state":"dry-run".*--act was not given; lockstep: node-fault xid-[0-9]+ fi-'
tap_result $? "a dry run writes the decision and the reason that Slurm would show"
is "and does nothing" "$(node_state n1)" idle

# The same with --act, while the job of another user is on the node.
other=$(as bob sbatch --parsable -N1 -w n1 -o /dev/null --wrap 'exec sleep 1000')
await job_is "$other" RUNNING
again --act --drain-share 60
await life_is n1 out
tap_result $? "with --act the node is taken out"
reason n1 >"$TAP/reason"
has "with the structured reason" '^lockstep: node-fault xid-[0-9]+ fi-[0-9a-f]+$' "$TAP/reason"
is "which Slurm shows" "$(sinfo -h -R -n n1 -o %E)" "$(cat "$TAP/reason")"
is "the job on it goes on" "$(job_state "$other")" RUNNING

# Back only after the stage has passed twice.
checked n1 ok
is "one pass does not suffice" "$(life n1)" out
checked n1 ok
await life_is n1 back
tap_result $? "after two passes it is given back"
drained n1
is "to Slurm" $? 1
is "the job on it still goes on" "$(job_state "$other")" RUNNING
as bob scancel "$other"

# Somebody else's drain stays.
scontrol update nodename=n2 state=drain reason='disk swap'
fault n2
await life_is n2 out
tap_result $? "a node that somebody else drained is out"
is "and keeps that reason" "$(reason n2)" "disk swap"
checked n2 ok
checked n2 ok
await life_is n2 verified
drained n2
tap_result $? "and is not given back by us"

# Somebody changed the reason of ours.
fault n3
await life_is n3 out
scontrol update nodename=n3 state=drain reason='mine now'
checked n3 ok
checked n3 ok
await logged 'order d-.*: not-executed: n3 is .*mine now'
drained n3
tap_result $? "a node whose reason somebody changed stays drained"
is "with that reason" "$(reason n3)" "mine now"

# The kill switch.
: >"$site/act.off"
mode_is() { show api/v1/node-states | grep -q "\"mode\":\"$1\""; }
await mode_is off
fault n4
await decided n4 'the kill switch is on; lockstep: '
tap_result $? "the kill switch turns it off"
is "the node stays in service" "$(node_state n4)" idle
rm "$site/act.off"
await life_is n4 out
tap_result $? "without it the node is taken out"

# A budget.
again --act --drain-share 100 --drains 3
checked n5 ok
fault n5
await decided n5 'the budget is used up: 3 drains in an hour; lockstep: '
tap_result $? "no more nodes in an hour than the budget has"

# A person takes a node out, whatever the budget, and gives it back after a check.
node() { LOCKSTEP_STATE=$site "$LOCKSTEP" node "$@"; }
export LOCKSTEP_CONTROL="$url"
exits 0 "a person takes a node out" node out n1
has "which says how it is now" '^n1: n1 is IDLE\+DRAIN: lockstep: maintenance ' "$TAP/out"
is "in Slurm" "$(sinfo -h -N -n n1 -o %T)" drained
exits 1 "taking it out again is refused" node out n1
has "with the reason" 'n1: it is out already' "$TAP/err"
exits 1 "a person asks for it back" node in n1
has "which is refused before a check has passed" 'stage quick passed 0 of 1 times since it is out' "$TAP/err"
checked n1 ok quick
await life_is n1 verified
exits 0 "after one it is given back" node in n1
drained n1
is "in Slurm, too" $? 1
exits 2 "a word that --when does not have is refused" node out --when later n1
exits 0 "the nodes are listed" env LOCKSTEP_STATE="$site" "$LOCKSTEP" nodes
has "each with its state and why" '^n1 +back +ok +[0-9]+s  n1 is IDLE' "$TAP/out"
exits 0 "for programs, too" env LOCKSTEP_STATE="$site" "$LOCKSTEP" nodes --json
python3 -c '
import json, sys
rows = {row["node"]: row for row in json.load(open(sys.argv[1]))}
assert rows["n1"]["state"] == "back" and not rows["n1"]["lemon"] and rows["n1"]["since"], rows["n1"]
assert any(c["name"] == "all" and c["state"] == "ok" for c in rows["n1"]["checks"]), rows["n1"]
assert rows["n2"]["state"] == "verified" and rows["n2"]["reason"] is None, rows["n2"]
' "$TAP/out"
tap_result $? "with what it is for each node"

# The controller is killed while scontrol hangs, before and after it has done its work.
real=$(command -v scontrol)
mkdir "$TAP/bin"
cat >"$TAP/bin/scontrol" <<END
#!/bin/sh
case "\$*" in
update*DRAIN*)
    [ ! -e "$TAP/late" ] || "$real" "\$@"
    echo x >>"$TAP/updates"
    exec sleep 1000 ;;
esac
exec "$real" "\$@"
END
chmod 755 "$TAP/bin/scontrol"
PATH=$TAP/bin:$PATH
again --act --drain-share 100 --drains 100
await test -s "$TAP/updates"
tap_result $? "scontrol hangs"
is "and the controller goes on" "$(status -K "$(reader)" "$api/nodes/n5")" 200
rm "$TAP/updates"
again --act --drain-share 100 --drains 100
await decided n5 '"part":"controller","result":"unknown"'
tap_result $? "what a killed controller had begun is reported as not known"
[ ! -e "$TAP/updates" ]
tap_result $? "and not done again"
is "nothing has changed" "$(node_state n5)" idle
kill -9 $control
wait $control 2>/dev/null
lacks "the site's log replays byte for byte" 'differently' "$TAP/control.err"
done_testing
