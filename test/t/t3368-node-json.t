#!/bin/sh
# lockstep node out and in for programs: --json gives the request with its decisions and outcomes, also of one that is refused.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"
root=$TAP/shm state=$TAP/agents daemon=''
trap 'kill -9 $control $daemon 2>/dev/null; rm -rf "$TAP"' EXIT
mkdir -p -m 700 "$root" "$state"

node() # OPTION...
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" node "$@" --control "$url" n1 >"$TAP/out" 2>"$TAP/err"
}
known() { curl -sf -K "$(reader)" "$api/nodes/n1" >"$TAP/node"; }

: >"$TAP/kmsg"
site_start
LOCKSTEP_STATE=$site "$LOCKSTEP" control --node-token n1 >/dev/null
install -m 600 "$site/nodes/n1.token" "$state/node.token"
LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" agent --every-run --every-root "$root" --state "$state" \
    --node n1 --control "$url" --kmsg "$TAP/kmsg" 2>"$TAP/daemon.err" &
daemon=$!
await known

for way in out in; do
    node $way --json --wait 20s
    status=$?
    echo "# node $way: status $status, $(tr -d '\n' <"$TAP/out" | cut -c1-300) $(cat "$TAP/err")"
    is "node $way of a controller that may not act is refused" $status 1
    has "with the reason on standard error" '^lockstep node '$way': ' "$TAP/err"
    python3 - "$TAP/out" >"$TAP/request" 2>&1 <<'PYTHON'
import json
import sys

request = json.load(open(sys.argv[1]))
decision = request["decisions"][-1]
print(request["open"], decision["action"], decision["state"], bool(decision["why"]), decision["outcomes"])
PYTHON
    tap_result $? "node $way --json is one object" "$(cat "$TAP/request")"
    has "of a request that is over, with its decision" '^False [a-z-]+ (expired|dry-run|superseded) True \[\]$' "$TAP/request"
done
node out --json --dry-run
is "a dry run asks for nothing" $? 0
done_testing
