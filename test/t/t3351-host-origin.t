#!/bin/sh
# A web page of somebody else reads nothing: its name in Host or Origin is refused, for every method, also where
# DNS says that the name is this machine.  Reading needs a token, on loopback as well.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

raw() # TEXT: sends the bytes (printf), prints the status line's code
{
    printf "$1" | python3 -c '
import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
one.sendall(sys.stdin.buffer.read())
print(one.recv(100).decode().split(" ")[1])' "${url##*:}"
}

site_start --host-name ctl.example --host-name=Other.Example
port=${url##*:}
rc=$(reader)
for host in localhost "localhost:$port" 127.0.0.1 "127.0.0.1:$port" 127.0.0.1:8443 '[::1]' '[::1]:9' ctl.example ctl.example:443 \
    CTL.Example other.example; do
    is "Host $host is ours" "$(status -K "$rc" -H "Host: $host" "$api/runs")" 200
done
for host in evil.example "evil.example:$port" localhost.evil.example 127.0.0.1.evil.example 10.0.0.1 '[::2]' 'localhost:' \
    'localhost:99999' 'localhost:8x' 'evil@localhost' 'localhost evil' '[::1' ctl.example.evil; do
    is "Host $host is not" "$(status -K "$rc" -H "Host: $host" "$api/runs")" 403
done
has "the answer says what to do" '"error":".*--host-name' "$TAP/out"
is "nor is it for what needs no token" "$(status -H 'Host: evil.example' "$url/healthz")" 403
is "no Host in HTTP/1.1" "$(raw 'GET /healthz HTTP/1.1\r\n\r\n')" 400
is "an empty Host" "$(raw 'GET /healthz HTTP/1.1\r\nHost:\r\n\r\n')" 400
is "two Hosts" "$(raw 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n')" 400
is "HTTP/1.0 needs none, browsers do not speak it" "$(raw 'GET /healthz HTTP/1.0\r\n\r\n')" 200

is "an Origin that equals Host" "$(status -K "$rc" -H "Origin: http://127.0.0.1:$port" "$api/runs")" 200
is "also behind a forwarded port" \
    "$(status -K "$rc" -H 'Host: localhost:9999' -H 'Origin: http://localhost:9999' "$api/runs")" 200
for origin in http://evil.example null "http://localhost:$port" http://127.0.0.1 "http://127.0.0.1:1" \
    "http://127.0.0.1:$port.evil.example" "http://evil.example/127.0.0.1:$port" ''; do
    is "Origin '$origin' does not" "$(status -K "$rc" -H "Origin;" -H "Origin: $origin" "$api/runs")" 403
done
for method in HEAD POST PUT DELETE OPTIONS PATCH; do
    is "$method neither" "$(printf '%s %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n' \
        $method /api/v1/runs "$port" | python3 -c '
import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
one.sendall(sys.stdin.buffer.read())
print(one.recv(100).decode().split(" ")[1])' "$port")" 403
done
is "the event stream neither" "$(status -K "$rc" -H 'Origin: http://evil.example' "$api/events")" 403
curl -s -D "$TAP/head" -o /dev/null -K "$rc" "$api/runs"
lacks "no other origin is ever invited" '^Access-Control-' "$TAP/head"

# Tokens.
for path in /metrics /api/v1/runs /api/v1/events /api/v1/config /api/v1/nodes /api/v1/verdicts /api/v1/evidence /api/v1/findings; do
    is "$path needs a token on loopback" "$(status "$url$path")" 401
done
is "a launcher may read" "$(status -K "$(bearer "$site/tokens/launch.token")" "$api/runs")" 200
for path in /healthz /readyz; do
    is "$path does not, it shows nothing" "$(status "$url$path")" 200
done
site_stop
: >"$TAP/control.err"
site_start --anonymous-reads
has "the operator may turn that off, and the log says so" 'can read .*without a token' "$TAP/control.err"
is "then anybody on this machine reads" "$(status "$api/runs")" 200
is "but writes nothing" "$(status -d '{"run":"r1"}' "$api/runs")" 401
is "and Host is checked all the same" "$(status -H 'Host: evil.example' "$api/runs")" 403
site_stop
exits 2 "not off loopback" env LOCKSTEP_STATE="$TAP/other" "$LOCKSTEP" control --listen 0.0.0.0:0 --anonymous-reads
has "which is said" 'anonymous-reads.*loopback' "$TAP/err"
exits 2 "a host name must be one" "$LOCKSTEP" control --listen 127.0.0.1:0 --host-name 'http://ctl.example'
has "which is said" 'host-name' "$TAP/err"

# Any address: the one that a connection came in by is as good as a name.
: >"$TAP/control.err"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 0.0.0.0:0 2>"$TAP/control.err" &
control=$!
await grep -q 'listening on' "$TAP/control.err"
port=$(sed 's/.*://' "$site/control.url")
await curl -sfk "https://127.0.0.1:$port/healthz"
rc=$(reader)
is "127.0.0.2 is this machine" "$(status -K "$rc" "https://127.0.0.2:$port/api/v1/runs")" 200
is "an address by which nobody came is not" "$(status -K "$rc" -H 'Host: 192.0.2.7' "https://127.0.0.2:$port/api/v1/runs")" 403
site_stop
done_testing
