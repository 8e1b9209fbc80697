#!/bin/sh
# Wrong tokens are slowed down; a good token of the same address passes at once, however many wrong ones come beside it.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

site_start
cat >"$TAP/storm.py" <<'END'
"""A storm of wrong tokens on several connections until told to stop; prints how many answers of each status came."""
import collections, http.client, os, sys, threading
port, flag = int(sys.argv[1]), sys.argv[2]
seen = collections.Counter()
def guess(number):
    count = 0
    while not os.path.exists(flag):
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            for _ in range(50):
                count += 1
                one.request(*(("GET", "/api/v1/runs"), ("POST", "/api/v1/frames?run=r2"))[number % 2],
                            headers={"Authorization": "Bearer lst_%064x" % (number << 32 | count)})
                answer = one.getresponse()
                answer.read()
                seen[answer.status] += 1
                if answer.getheader("Connection", "").lower() == "close":
                    break
        except (OSError, http.client.HTTPException):
            seen["closed"] += 1
        one.close()
threads = [threading.Thread(target=guess, args=(i,)) for i in range(16)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(dict(seen))
print("wrong %d waited %d" % (seen[401], seen[429]))
END
python3 "$TAP/storm.py" "${url##*:}" "$TAP/stop" >"$TAP/storm" 2>&1 &
storm=$!
refused() { status -H 'Authorization: Bearer lst_guess' "$api/runs" >"$TAP/status"; grep -q 429 "$TAP/status"; }
await refused
tap_result $? "a storm of wrong tokens: further wrong ones are answered 429"
good=0
for i in $(seq 50); do
    [ "$(status -K "$(reader)" "$api/runs")" = 200 ] && good=$((good + 1))
done
is "every request with a good token passes meanwhile" "$good" 50
printf '{"run":"r1"}' >"$TAP/body"
is "a launcher begins a run" "$(status -K "$(bearer "$site/tokens/launch.token")" -d @"$TAP/body" "$api/runs")" 200
site_run r2 2 20
is "a job sends its facts beside the storm" $? 0
lacks "and nothing of it was refused" '429|wrong token' "$TAP/run.err"
is "all of it arrived" "$(status -K "$(reader)" "$api/runs/r2/steps")" 200
is "each step once" "$(grep -o '"step":' "$TAP/out" | wc -l)" 20
: >"$TAP/stop"
wait $storm
has "wrong ones were refused all the time" '^wrong [1-9][0-9]* waited [1-9]' "$TAP/storm"
is "metrics" "$(status -K "$(reader)" "$url/metrics")" 200
has "count them" '^lockstep_[a-z_]*refused[a-z_]* [1-9]' "$TAP/out"

# Whose request it is was decided when its headers came, also when its token is withdrawn before its body is there.
printf 'lst_%064x\n' 1 >"$site/tokens/launch-ada.token"
chmod 600 "$site/tokens/launch-ada.token"
kill -HUP $control
ada() { status -K "$(bearer "$site/tokens/launch-ada.token")" "$api/runs"; }
known() { [ "$(ada)" = 200 ]; }
await known
tap_result $? "a new token is known after a SIGHUP"
cat >"$TAP/slow.py" <<'END'
"""POST /runs, with a body that ends when the controller does not know the token any more."""
import http.client, os, signal, sys, time
port, control, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
token = {"Authorization": "Bearer " + open(file).read().strip()}
def ask():
    one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    one.request("GET", "/api/v1/runs", headers=token)
    return one.getresponse().status
slow = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
slow.putrequest("POST", "/api/v1/runs")
slow.putheader("Authorization", token["Authorization"])
slow.putheader("Content-Length", "14")
slow.putheader("Expect", "100-continue")
slow.endheaders()
assert slow.sock.recv(100).startswith(b"HTTP/1.1 100") # so it was admitted
os.unlink(file)
os.kill(control, signal.SIGHUP)
while ask() == 200:
    time.sleep(0.05)
slow.send(b'{"run":"slow"}')
print(slow.getresponse().status)
END
is "a request that was admitted before is answered" \
    "$(python3 "$TAP/slow.py" "${url##*:}" $control "$site/tokens/launch-ada.token" 2>&1)" 200
is "and the run is its sender's" "$(cat "$site/runs/slow/owner")" launch-ada
site_stop
done_testing
