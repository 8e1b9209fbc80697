#!/bin/sh
# Ports and URLs are read strictly, and a token goes out encrypted or not at all.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

for listen in 127.0.0.1:99999 127.0.0.1:65536 127.0.0.1: 127.0.0.1:-1 127.0.0.1:+80 '127.0.0.1: 80' 127.0.0.1:80x \
    127.0.0.1:0x50 127.0.0.1 :80 127.0.0.1:000080 127.0.0.1:80:80 '[::1]80' '[::1]:99999' ::1:80 http://127.0.0.1:80 \
    0:80 127.1:80 'localhost:port' ''; do
    exits 2 "--listen '$listen' is refused" timeout 10 env LOCKSTEP_STATE="$site" "$LOCKSTEP" control --listen "$listen"
    has "with a sentence" "listen" "$TAP/err"
done
exits 2 "so it is in the environment" timeout 10 env LOCKSTEP_STATE="$site" LOCKSTEP_LISTEN=127.0.0.1:99999 "$LOCKSTEP" control
printf 'control:\n  listen: 127.0.0.1:99999\n' >"$TAP/settings.yaml"
exits 2 "and in a settings file" timeout 10 env LOCKSTEP_STATE="$site" LOCKSTEP_CONFIG="$TAP/settings.yaml" "$LOCKSTEP" control

"$LOCKSTEP" run -q --name r1 -- true >/dev/null 2>&1
printf 'lst_%064d\n' 7 >"$TAP/launch.token"
chmod 600 "$TAP/launch.token"
send() { "$LOCKSTEP" send --token-file "$TAP/launch.token" --patience 1ms --control "$@" r1; }
for to in http://127.0.0.1:99999 http://127.0.0.1: http://127.0.0.1:0 http://127.0.0.1:-1 http://127.0.0.1:80x http://127.0.0.1:80/path \
    http://user@127.0.0.1:80 'http://127.0.0.1:80?x' ftp://127.0.0.1:80 127.0.0.1:80 http:// https://[::1 'http://a b:80' \
    http://127.0.0.1:80#x; do
    exits 2 "--control '$to' is refused" send "$to"
    has "with a sentence" 'expected http' "$TAP/err"
    exits 2 "so it is by run" "$LOCKSTEP" run --control "$to" -- false
done

# Nothing leaves this machine in clear: the addresses are those of documentation, and no connection is tried.
for to in http://192.0.2.1:80 http://controller.example:8787 http://[2001:db8::1]:80 http://localhost.evil.example:80 \
    http://127.0.0.1.evil.example; do
    exits 2 "a token does not go in clear to $to" send "$to"
    has "the error says why" "token.*(clear|plain)" "$TAP/err"
    has "and what to do" 'https://' "$TAP/err"
    has "and how to insist" 'insecure-http' "$TAP/err"
    exits 2 "run refuses before anything starts" "$LOCKSTEP" run --control "$to" -- touch "$TAP/started"
done
[ ! -e "$TAP/started" ]
tap_result $? "nothing was started"

# A fake controller: redirects everything, and records what it got.
if command -v python3 >/dev/null; then
    python3 - "$TAP" <<'END' &
import http.server, sys, threading
folder = sys.argv[1]
def serve(name, to):
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            size = int(self.headers.get("Content-Length", 0))
            self.rfile.read(size)
            open(folder + "/" + name + ".log", "a").write("%s %s\n" % (self.path, self.headers.get("Authorization")))
            self.send_response(307)
            self.send_header("Location", to() + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
        do_GET = do_POST = answer
        def log_message(self, *args): pass
    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
servers = []
url = lambda i: "http://127.0.0.1:%d" % servers[i].server_address[1]
servers += [serve("first", lambda: url(1)), serve("second", lambda: url(0))]
for one in servers:
    threading.Thread(target=one.serve_forever).start()
open(folder + "/fake.url.new", "w").write(url(0) + "\n")
import os
os.rename(folder + "/fake.url.new", folder + "/fake.url")
END
    control=$!
    await test -s "$TAP/fake.url"
    send "$(cat "$TAP/fake.url")" --patience 3s >"$TAP/out" 2>"$TAP/err"
    await test -s "$TAP/first.log"
    has "a controller on loopback gets the token" 'Bearer lst_0' "$TAP/first.log"
    has "a redirect is an error" '307' "$TAP/err"
    [ ! -e "$TAP/second.log" ]
    tap_result $? "the token follows no redirect"
    kill $control
    wait $control 2>/dev/null
    control=''
else
    skip "the token follows no redirect" "no python3 here"
fi
done_testing
