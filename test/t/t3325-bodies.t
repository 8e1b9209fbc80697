#!/bin/sh
# What senders of one run have under way, and how many they are, is bounded; other runs go on beside it.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

site_start
is "a run is registered" "$(register greedy)" 200
"$BUILD/test/frames" boots 0 5000 >"$TAP/body"
is "a body of too many processes is refused" "$(post greedy "$TAP/body")" 507
has "with the reason" 'a body may have frames of 4096 processes' "$TAP/out"
for first in 0 4000 8000; do
    "$BUILD/test/frames" boots $first 4000 >"$TAP/body"
    is "one of 4000 is taken ($first)" "$(post greedy "$TAP/body")" 200
done
: >"$TAP/nothing"
is "a sender asks what is there" \
    "$(status -K "$(bearer "$site/runs/greedy/agent.token")" --data-binary @"$TAP/nothing" "$api/frames?run=greedy&sender=1267")" 200
ok "it is answered with the newest" test "$(grep -o '"boot"' "$TAP/out" | wc -l)" = 4096

# Bodies that do not end: 60 of 8 MiB less a byte each.
before=$(memory_kb)
cat >"$TAP/hold.py" <<'END'
import socket, sys, time
port, token, ready = int(sys.argv[1]), open(sys.argv[2]).read().strip(), sys.argv[3]
size, held, refused = 8 << 20, [], 0
for _ in range(60):
    one = socket.create_connection(("127.0.0.1", port))
    try:
        one.sendall(("POST /api/v1/frames?run=greedy HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
                     "Content-Length: %d\r\n\r\n" % (token, size)).encode() + b"x" * (size - 1))
    except OSError:
        refused += 1
    held.append(one)
open(ready, "w").write("%d\n" % refused)
time.sleep(600)
END
python3 "$TAP/hold.py" "${url##*:}" "$site/runs/greedy/agent.token" "$TAP/ready" &
holder=$!
await test -s "$TAP/ready"
after=$(memory_kb)
ok "they do not fill the memory" test "$after" -lt $((before + 300000))
is "facts of another run are taken meanwhile" "$(site_run good 2 10 && echo well)" well
kill -9 $holder
wait $holder 2>/dev/null
"$BUILD/test/frames" boots 12000 1 >"$TAP/body"
taken() { [ "$(post greedy "$TAP/body")" = 200 ]; }
await taken
tap_result $? "when they are gone, the run goes on"
site_stop
done_testing
