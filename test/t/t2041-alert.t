#!/bin/sh
# Alerts: the verdict as JSON to a program and to a web server; one that hangs or fails stops nobody.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

printf 'crash:\n  kind: crash\n  action: alert\n  reason: people look\n' >"$TAP/policy.yaml"

run() # NAME OPTION...: a rank fails, and that is an alert
{
    name=$1
    shift
    timeout -k 5 100 "$LOCKSTEP" run -q --name "$name" --policy "$TAP/policy.yaml" "$@" -n 2 -- \
        sh -c '[ $RANK = 1 ] && exit 3; exec sleep 60'
}

incident() # RUN
{
    "$LOCKSTEP" why "$1" >"$TAP/why"
    "$LOCKSTEP" incident "$(sed -n 's/.*, id \(cr-[0-9a-f]*\)$/\1/p' "$TAP/why")" --run "$1" >"$TAP/incident"
}

cat >"$TAP/take" <<'END'
#!/bin/sh
cat >"$0.json"
END
cat >"$TAP/hang" <<'END'
#!/bin/sh
sleep 1000 &
echo $! >"$0.pid"
wait
END
printf '#!/bin/sh\nexit 5\n' >"$TAP/refuse"
chmod +x "$TAP/take" "$TAP/hang" "$TAP/refuse"

exits 3 "a run with a program for alerts" run taken --alert-exec "$TAP/take"
cat >"$TAP/check.py" <<'END'
import json, sys
root = json.load(open(sys.argv[1]))
assert root["run"] == sys.argv[2], root
assert root["verdict"]["kind"] == "crash" and root["verdict"]["ranks"] == [1], root
assert root["decision"]["action"] == "alert", root
END
ok "it got the verdict as JSON" python3 "$TAP/check.py" "$TAP/take.json" taken
incident taken
has "the decision is recorded" '^  [0-9:.]+  policy +alert \(ordered\): crash: people look$' "$TAP/incident"
ok "decisions replay" "$LOCKSTEP" why --replay taken
has "byte by byte" 'byte-equal$' "$TAP/out"

exits 3 "a program that hangs" run hung --alert-exec "$TAP/hang"
gone() { ! kill -0 "$(cat "$TAP/hang.pid")" 2>/dev/null; }
await gone
tap_result $? "is killed with what it started"
has "and it is said" "$TAP/hang did not end within" "$TAP/state/runs/hung/alert.log"
exits 3 "one that fails" run refused --alert-exec "$TAP/refuse"
has "is said, too" "$TAP/refuse exited with 5" "$TAP/state/runs/refused/alert.log"
exits 2 "one that is not there is refused at once" run absent --alert-exec "$TAP/nothing"
has "by its name" "--alert-exec: $TAP/nothing: No such file" "$TAP/err"
[ ! -e "$TAP/state/runs/absent" ]
tap_result $? "and nothing was started"
LOCKSTEP_ALERT_EXEC=$TAP/nothing
export LOCKSTEP_ALERT_EXEC
exits 3 "in the environment it stops no job" run absent
has "but is named" 'LOCKSTEP_ALERT_EXEC is ignored' "$TAP/err"
unset LOCKSTEP_ALERT_EXEC

# A web server.
cat >"$TAP/server.py" <<'END'
import http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[1] + ".new", "wb") as out:
            out.write(body)
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".port.new", "w") as out:
    out.write(str(server.server_port))
os.rename(sys.argv[1] + ".port.new", sys.argv[1] + ".port")
server.serve_forever()
END
python3 "$TAP/server.py" "$TAP/posted" &
server=$!
await test -s "$TAP/posted.port"
exits 3 "a run with a webhook" run posted --alert-webhook "http://127.0.0.1:$(cat "$TAP/posted.port")/secret-path"
ok "the server got the verdict" python3 "$TAP/check.py" "$TAP/posted" posted
kill "$server"
wait "$server" 2>/dev/null
exits 3 "a server that is gone" run lost --alert-webhook "http://127.0.0.1:$(cat "$TAP/posted.port")/secret-path"
has "is said" 'webhook: ' "$TAP/state/runs/lost/alert.log"
lacks "without the path, which may be a secret" 'secret-path' "$TAP/state/runs/lost/alert.log"
done_testing
