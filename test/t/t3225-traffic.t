#!/bin/sh
# What agents send is measured where it is sent, and told where people look: rows of nodes, /metrics, the agent's own
# last word; beside it when each was heard, and how well its clock is known.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

RANKS=4
site=$TAP/site user=$TAP/user
control='' run=''
trap '[ -z "$run" ] || kill $run 2>/dev/null; [ -z "$control" ] || kill -9 $control 2>/dev/null; wait; rm -rf "$TAP"' EXIT
command -v python3 >/dev/null || skip_all "no python3 here"

begin()
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${listen:-127.0.0.1:0}" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url")
    await curl -sf "$url/healthz"
}
rows() { curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs/r1/nodes" >"$TAP/nodes"; }
ask() # EXPRESSION over `rows`, the run's nodes in order of their names
{
    rows
    python3 - "$TAP/nodes" "$1" <<'END'
import json, sys
rows = sorted(json.load(open(sys.argv[1]))["nodes"], key=lambda row: row["node"])
sys.exit(0 if eval(sys.argv[2]) else 1)
END
}

begin
listen=${url#http://}
(LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token timeout -k 5 100 "$LOCKSTEP" run \
    -q --name r1 -n $RANKS --nodes 2 -- "$LOCKSTEP" trainer --steps 900 --step-ms 20 --host-work-ms 0 \
    >"$TAP/run.out" 2>"$TAP/run.err"; echo $? >"$TAP/done") &
run=$!
await ask 'len(rows) == 2 and all(row["traffic"] for row in rows)'
tap_result $? "every agent tells what it sends"
await ask 'all(row["clock"] for row in rows) and rows[0]["clock"]["offset_seconds"] == 0'
tap_result $? "clocks of nodes are bounded, and that is told"
ask 'rows[1]["clock"]["error_seconds"] < 1'
tap_result $? "well enough"
await ask 'all(row["traffic"]["sent_rank_steps"] > 100 for row in rows)'
tap_result $? "what it says grows"
ok "headers are on the wire, too" ask 'all(row["traffic"]["wire_bytes"] > row["traffic"]["sent_bytes"] for row in rows)'
ok "steps have a price" ask 'all(40 < row["traffic"]["bytes_per_rank_step"] < 8192 for row in rows)'
ok "it has a rate" ask 'all(row["traffic"]["bytes_per_second"] > 100 for row in rows)'
ok "and a time at which it was heard" ask 'all(row["heard_time"] >= row["hello_time"] for row in rows)'
curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/metrics" >"$TAP/metrics"
for name in sent_bytes_total wire_bytes_total sent_bodies_total sent_frames_total sent_rank_steps_total \
    send_failures_total backlog_bytes spool_bytes last_contact_timestamp_seconds; do
    is "$name is told of each" "$(grep -c "^lockstep_agent_$name{run=\"r1\",node=\"n[01]\"} [0-9]" "$TAP/metrics")" 2
done
if command -v promtool >/dev/null; then
    ok "as Prometheus wants it" sh -c "promtool check metrics <'$TAP/metrics'"
else
    skip "as Prometheus wants it" "no promtool here"
fi

# Tokens are in files: whoever lists processes does not see them.
cat "$site/tokens/launch.token" "$site/runs/r1/agent.token" >"$TAP/secrets"
! grep -aqFf "$TAP/secrets" /proc/[0-9]*/cmdline 2>/dev/null
tap_result $? "no token is in any command line"

# A controller that is away: what waits is told when it is back, and what did not arrive is counted.
kill -9 $control
wait $control 2>/dev/null
waits() { [ "$(grep -l 'cannot send facts' "$user"/runs/r1/agent-*.log | wc -l)" = 2 ]; } # both have noticed
await waits
begin
await ask 'all(row["traffic"] and row["traffic"]["failures"] > 0 for row in rows)'
tap_result $? "bodies that were not taken are counted"
await test -e "$TAP/done"
is "the run ends well" "$(cat "$TAP/done")" 0
run=''
has "and each agent says at its end what it brought" \
    'sent [1-9][0-9]* bytes in [1-9][0-9]* requests, [1-9][0-9]* bytes over TCP' "$user/runs/r1/agent-n0.log"

# Its own count against the controller's: the frames of a log of its own are the frames that were taken.
taken=$(($(sed -n 's/.*: sent \([0-9]*\) bytes.*/\1/p' "$user"/runs/r1/agent-*.log | paste -sd+)))
spooled=$(cat "$user"/runs/r1/spool/agent-*.lsf | wc -c)
is "what they count is what was in their spools" "$taken" "$spooled"
rm -f "$site/index.sqlite"*
kill -TERM $control
wait $control
control=''
rows_before=$(python3 -c 'import json,sys; print([[r["node"], r["traffic"]["sent_bytes"]] for r in json.load(open(sys.argv[1]))["nodes"]])' "$TAP/nodes")
ok "an index is made anew" env LOCKSTEP_STATE="$site" "$LOCKSTEP" control --reindex
begin
rows
is "and says the same or more" "$(python3 - "$TAP/nodes" "$rows_before" <<'END'
import json, sys, ast
now = {row["node"]: row["traffic"]["sent_bytes"] for row in json.load(open(sys.argv[1]))["nodes"]}
print(all(now[node] >= sent for node, sent in ast.literal_eval(sys.argv[2])))
END
)" True
kill -TERM $control
wait $control
control=''
done_testing
