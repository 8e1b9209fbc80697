#!/bin/sh
# One client does not take every place of the event stream: not from one address, not with one token.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

# 128 connections: 64 listeners in all, 32 with one token, 16 from one address.
begin() # ADDRESS OPTION...
{
    rm -f "$site/control.url"
    address=$1
    shift
    (ulimit -n 384 && LOCKSTEP_STATE=$site exec "$LOCKSTEP" control --listen "$address:0" "$@") 2>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(sed s/0.0.0.0/127.0.0.1/ "$site/control.url")
    await curl -sfk "$url/healthz"
}
mkdir -p "$site/tokens"
chmod 700 "$site" "$site/tokens"
printf 'lst_%064d\n' 1 >"$site/tokens/reader-ada.token"
printf 'lst_%064d\n' 2 >"$site/tokens/reader-bob.token"
chmod 600 "$site/tokens/"*.token
cat >"$TAP/listen.py" <<'END'
"""listen.py PORT COUNT FROM TOKEN-FILE: so many listeners from that address; prints how many are let in, then holds them."""
import collections, socket, ssl, sys
port, count, source, token = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], open(sys.argv[4]).read().strip()
context = ssl._create_unverified_context()
seen, held = collections.Counter(), []
for i in range(count):
    one = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60, (source, 0)))
    one.sendall(("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % token).encode())
    seen[one.recv(100).split(b" ")[1].decode()] += 1
    held.append(one)
print("in %d refused %d" % (seen["200"], seen["429"]), flush=True)
sys.stdin.read()
END
mkfifo "$TAP/hold"
begin 0.0.0.0
exec 7<>"$TAP/hold"
port=${url##*:}
leave() # those who listen
{
    kill $(cat "$TAP/held")
    rm "$TAP/held"
}
trap 'kill -9 $control $(cat "$TAP/held") 2>/dev/null; rm -rf "$TAP"' EXIT
listen() # COUNT FROM TOKEN: what it prints
{
    rm -f "$TAP/listen"
    python3 "$TAP/listen.py" "$port" "$1" "$2" "$site/tokens/$3.token" <"$TAP/hold" >"$TAP/listen" 2>&1 7>&- &
    echo $! >>"$TAP/held"
    await test -s "$TAP/listen"
    cat "$TAP/listen"
}
is "one address gets a quarter of the places" "$(listen 20 127.0.0.2 reader-ada)" "in 16 refused 4"
is "with another token no more of them" "$(listen 4 127.0.0.2 reader-bob)" "in 0 refused 4"
is "one token gets half of them" "$(listen 20 127.0.0.3 reader-ada)" "in 16 refused 4"
is "from a third address no more of them" "$(listen 4 127.0.0.4 reader-ada)" "in 0 refused 4"
is "another reader listens all the same" "$(listen 2 127.0.0.4 reader-bob)" "in 2 refused 0"
is "the answer says why" "$(curl -sk --interface 127.0.0.2 -K "$(bearer "$site/tokens/reader-bob.token")" "$url/api/v1/events" |
    grep -c 'are open from this address')" 1
leave
gone() { status -K "$(reader)" "$url/metrics" >/dev/null; grep -Eq '^lockstep_event_listeners 0$' "$TAP/out"; }
await gone
tap_result $? "who leaves makes room"
is "and the next is let in" "$(listen 1 127.0.0.2 reader-ada)" "in 1 refused 0"
leave
site_stop
done_testing
