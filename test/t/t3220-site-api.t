#!/bin/sh
# What a site's controller tells: pages of the index as docs/openapi.json describes them, the event
# stream, thresholds; and what it bears: slow, silent, many and greedy clients.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=25 RANKS=4
site=$TAP/site user=$TAP/user
control='' held=''
trap '[ -z "$control" ] || kill -9 $control $held 2>/dev/null; rm -rf "$TAP"' EXIT

status() # CURL-ARGUMENT...: the status, and the body in $TAP/out; with the reader's token
{
    curl -s -o "$TAP/out" -w '%{http_code}' -K "$(bearer "$site/tokens/reader.token")" "$@"
}

status_bare() # CURL-ARGUMENT...: the same without
{
    curl -s -o "$TAP/out" -w '%{http_code}' "$@"
}

LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
url=$(cat "$site/control.url")
api=$url/api/v1
await curl -sf "$url/healthz"
await test -s "$site/index.sqlite"
lacks "a new state directory has no index to rebuild" 'rebuilding' "$TAP/control.err"
curl -sN -K "$(bearer "$site/tokens/reader.token")" --max-time 120 "$api/events?types=run,ledger,progress" >"$TAP/events" 2>/dev/null &
held=$!
await grep -q '^retry' "$TAP/events"
LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
    timeout -k 5 90 "$LOCKSTEP" run -q --name r1 -n $RANKS --nodes 2 -- "$LOCKSTEP" trainer --steps $STEPS \
    >"$TAP/run.out" 2>"$TAP/run.err"
is "a run to look at" $? 0

# Pages.
if command -v python3 >/dev/null; then
    ok "every answer is as the document says" env LOCKSTEP_TOKEN_FILE="$site/tokens/reader.token" python3 "$SOURCE/test/t/openapi-check.py" \
        "$SOURCE/docs/openapi.json" "$SOURCE/src/control/site/api/api.c" "$url" r1 limit=2 after=1 newest_first=true spread=true \
        open=true kind=straggler layer=gpu rank=1 step_from=3 step_to=5 run=r1
else
    skip "every answer is as the document says" "no python3 here"
fi
is "ranks are told" "$(status "$api/runs/r1/ranks")" 200
is "all of them" "$(grep -o '"rank":' "$TAP/out" | wc -l)" $RANKS
is "steps are told, a part of them" "$(status "$api/runs/r1/steps?step_from=5&step_to=8")" 200
is "and no others" "$(grep -o '"step":[0-9]*' "$TAP/out" | tr '\n' ' ')" '"step":5 "step":6 "step":7 "step":8 '
seen=0 after=0 pages=0
while [ $pages -lt 50 ]; do
    status "$api/runs/r1/steps?limit=7&after=$after" >"$TAP/status"
    seen=$((seen + $(grep -o '"step":' "$TAP/out" | wc -l))) pages=$((pages + 1))
    after=$(sed -n 's/.*"next":\([0-9]*\).*/\1/p' "$TAP/out")
    [ -n "$after" ] || break
done
is "page after page every step comes once" "$seen" $STEPS
status -D "$TAP/head" "$api/runs/r1" >"$TAP/status"
tag=$(sed -n 's/^ETag: *\(.*\)\r$/\1/p' "$TAP/head")
is "what did not change is not sent again" "$(status -H "If-None-Match: $tag" "$api/runs/r1")" 304
is "a run that is not there is said" "$(status "$api/runs/nobody/ranks")" 404
is "a number must be one" "$(status "$api/runs/r1/ranks?limit=many")" 400
has "and which is said" 'limit: expected a number' "$TAP/out"
is "a kind must be one" "$(status "$api/runs/r1/verdicts?kind=strangler")" 400

# What verdicts rest on.
printf 'lockstep-plan 1\nnodes 1\nfault kill:rank=0,step=20\n' >"$TAP/plan"
LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
    timeout -k 5 90 "$LOCKSTEP" run -q --name r3 -n 1 -- "$LOCKSTEP" trainer --steps 60 --step-ms 10 \
    --host-work-ms 0 --plan "$TAP/plan" >"$TAP/run.out" 2>"$TAP/run.err"
is "a run with a rank that is killed" $? 137
evidence() { status "$api/evidence?$1" >"$TAP/status"; grep -o '"what":' "$TAP/out" | wc -l; }
evidence 'run=r3&rank=0&kind=crash' >"$TAP/count"
# A busy machine may be slow besides: that is a verdict of its own.
id=$(grep -o '"verdict":"[^"]*"[^]]*"ranks":\[0\]' "$TAP/out" | sed -n '1s/^"verdict":"\([^"]*\)".*/\1/p')
one="run=r3&id=$id"
all=$(evidence "$one")
[ "$all" -ge 2 ]
tap_result $? "its verdict rests on $all lines of evidence"
has "each says of which verdict, run, ranks and nodes" \
    '"run":"r3","verdict":"[^"]+","kind":"crash","role":"because","what":"[^"]+","source":"[^"]+","ranks":\[0\],"nodes":\["[^"]+"\]' \
    "$TAP/out"
has "and since when" '"since_time":"20[^"]+Z","decided_time":"20[^"]+Z"' "$TAP/out"
is "those of the run alone are the same" "$(status "$api/runs/r3/evidence?id=$id" >"$TAP/status"; grep -o '"what":' "$TAP/out" | wc -l)" "$all"
some=$(evidence "$one&source=launcher")
[ "$some" -ge 1 ] && [ "$some" -lt "$all" ] && ! grep -o '"source":"[^"]*"' "$TAP/out" | grep -qv '"launcher"'
tap_result $? "they can be asked for by source"
node=$(sed -n 's/.*"nodes":\["\([^"]*\)"\].*/\1/p' "$TAP/out")
is "of a node that has none there are none" "$(evidence "$one&node=another")" 0
is "of the one that has there are all" "$(evidence "$one&node=$node")" "$all"
is "none before it began" "$(evidence "$one&time_to=2001-01-01T00:00:00Z")" 0
is "all since then" "$(evidence "$one&time_from=2001-01-01T00:00:00.5Z")" "$all"
is "also in seconds" "$(evidence "$one&time_from=1000000000.5")" "$all"
is "another run has none of them" "$(evidence "run=r1&id=$id")" 0
is "a time must be one" "$(status "$api/evidence?time_from=yesterday")" 400
has "and what was expected is said" 'time_from: expected a time such as' "$TAP/out"
seen=0 after=0
while [ $seen -le "$all" ]; do
    status "$api/evidence?$one&limit=1&after=$after" >"$TAP/status"
    seen=$((seen + $(grep -o '"what":' "$TAP/out" | wc -l)))
    after=$(sed -n 's/.*"next":\([0-9]*\).*/\1/p' "$TAP/out")
    [ -n "$after" ] || break
done
is "page after page each comes once" "$seen" "$all"
if command -v python3 >/dev/null; then
    ok "all of it is as the document says" env LOCKSTEP_TOKEN_FILE="$site/tokens/reader.token" python3 "$SOURCE/test/t/openapi-check.py" "$SOURCE/docs/openapi.json" \
        "$SOURCE/src/control/site/api/api.c" "$url" r3 limit=2 source=launcher node="$node" time_from=1000000000 time_to=2001-01-01T00:00:00Z
else
    skip "all of it is as the document says" "no python3 here"
fi

# Events.
await grep -q '"event":"end"' "$TAP/events"
has "a begin is told" '^data: \{"run":"r1","event":"begin"' "$TAP/events"
has "how far the judges are" '^data: \{"run":"r1","judged":[0-9]+' "$TAP/events"
has "and the ledger" '^event: ledger$' "$TAP/events"
kill $held
last=$(sed -n 's/^id: //p' "$TAP/events" | sed -n 2p)
curl -sN -K "$(bearer "$site/tokens/reader.token")" --max-time 1 -H "Last-Event-ID: $last" "$api/events?types=run,ledger,progress" >"$TAP/again"
sed -n 's/^id: //p' "$TAP/events" | tail -n +3 >"$TAP/left"
sed -n 's/^id: //p' "$TAP/again" | head -n "$(wc -l <"$TAP/left")" | cmp -s - "$TAP/left"
tap_result $? "a reader that comes back gets what it missed"
curl -sN -K "$(bearer "$site/tokens/reader.token")" --max-time 1 -H "Last-Event-ID: 1-1" "$api/events" >"$TAP/again"
has "one that was away too long is told so" '^event: reset$' "$TAP/again"

# Thresholds.
set_one() { status_bare -K "$(bearer "$1")" -d "$2" "$api/runs/r2/thresholds"; }
printf '{"run":"r2"}' >"$TAP/body"
is "another run" "$(status_bare -K "$(bearer "$site/tokens/launch.token")" -d @"$TAP/body" "$api/runs")" 200
good='{"name":"verdict.least-cost","value":0.05}'
is "nobody changes a threshold without a token" "$(status_bare -d "$good" "$api/runs/r2/thresholds")" 401
is "a run's own token does" "$(set_one "$site/runs/r2/agent.token" "$good")" 200
has "and it holds" '"name":"verdict.least-cost","value":0.05' "$TAP/out"
is "so does the administrator" "$(set_one "$site/tokens/admin.token" '{"name":"verdict.least-cost","value":0.04}')" 200
await grep -aq 'verdict.least-cost.*admin' "$site/runs/r2/log.lsf"
tap_result $? "the run's log says what was changed, and by whom"
has "so does the controller" 'run r2: threshold verdict.least-cost set to 0.05 by the token of the run' "$TAP/control.err"
has "whoever it was" 'run r2: threshold verdict.least-cost set to 0.04 by admin' "$TAP/control.err"
is "a name must be one" "$(set_one "$site/tokens/admin.token" '{"name":"straggler","value":1}')" 400
is "a value must be in bounds" "$(set_one "$site/tokens/admin.token" '{"name":"verdict.least-cost","value":7}')" 400
is "a body must be JSON" "$(set_one "$site/tokens/admin.token" 'nonsense')" 400

# Clients that are no good.
is "headers have a limit" "$(status -H "X-Long: $(head -c 40000 /dev/zero | tr '\0' x)" "$url/healthz")" 431
if command -v python3 >/dev/null; then
    python3 - "${url##*:}" >"$TAP/out" 2>"$TAP/err" <<'END'
import socket, sys
idle = []
for i in range(1000):
    one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    if i % 2:
        one.sendall(b"POST /api/v1/frames?run=r1 HTTP/1.1\r\nHost:")
    idle.append(one)
other = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
other.settimeout(20)
print(other.recv(100).split(b"\r\n")[0].decode())
END
    has "a thousand silent connections keep nobody out" '^HTTP/1.1 200 OK$' "$TAP/out"
else
    skip "a thousand silent connections keep nobody out" "no python3 here"
fi
# One process makes the guesses, on one connection: twenty at once and two a second may be wrong, however slow this
# machine is just now, and no more than that.
guess() # COUNT: the statuses, one a line
{
    for i in $(seq "$1"); do
        printf 'url = "%s/runs"\noutput = "/dev/null"\n' "$api"
    done >"$TAP/guesses"
    curl -s -H "Authorization: Bearer lst_guess$1" -w '%{http_code}\n' -K "$TAP/guesses" >"$TAP/statuses"
}
begin=$(date +%s)
guess 400
took=$(($(date +%s) - begin + 1))
is "a guess is told that it is wrong" "$(head -n 1 "$TAP/statuses")" 401
wrong=$(grep -c '^401$' "$TAP/statuses") waits=$(grep -c '^429$' "$TAP/statuses")
is "all of them are answered" $((wrong + waits)) 400
[ "$wrong" -ge 20 ] && [ "$wrong" -le $((22 + 2 * took)) ]
tap_result $? "who guesses tokens has to wait: $wrong guesses in $took s"
# By the same process, on one connection or the next: a good token between wrong ones.
for i in $(seq 10); do
    for j in $(seq 20); do
        printf 'header = "Authorization: Bearer lst_guess"\nurl = "%s/runs"\noutput = "/dev/null"\nnext\n' "$api"
    done
    cat "$(bearer "$site/tokens/reader.token")"
    printf '\nurl = "%s/runs"\noutput = "/dev/null"\nwrite-out = "good %%{http_code}\\n"\nnext\n' "$api"
done | sed '$d' >"$TAP/guesses"
curl -s -K "$TAP/guesses" >"$TAP/statuses"
is "a good token does not" "$(grep -c '^good 200$' "$TAP/statuses")" 10
is "it is ready all the time" "$(status "$url/readyz")" 200
kill -TERM $control
wait $control
is "and ends when told" $? 0
control=''
done_testing
