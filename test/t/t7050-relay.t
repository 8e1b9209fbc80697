#!/bin/sh
# lockstep relay: every event at least once and in the order of its run, over files, TCP, TLS and sockets, through kills, receivers that
# drop connections, compaction and rotation.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

receiver=''
trap 'kill $receiver 2>/dev/null; rm -rf "$TAP"' EXIT
relay() { "$LOCKSTEP" relay --once --timeout 5s "$@"; }
receive() # NAME MODE FORMAT [DROP]: a receiver; its port is $port, what it got is in $TAP/NAME
{
    rm -f "$TAP/port" "$TAP/sock"
    where=$TAP/port
    [ "$2" != unix ] || where=$TAP/sock
    python3 "$SOURCE/test/t/relay-receiver.py" "$2" "$where" "$3" "$TAP/$1" ${4:+"$4"} 2>"$TAP/$1.err" &
    receiver=$!
    await test -e "$where"
    [ "$2" = unix ] || port=$(cat "$TAP/port")
}
stop() { kill $receiver && wait $receiver 2>/dev/null; receiver=''; }
ids() { sed 's/^{"schema":1,"event":"\([0-9a-f]*\)".*/\1/; s/ .*//' "$1"; } # of JSON lines, or of what a receiver wrote
once() { awk '!seen[$0]++'; }                                             # the first of each

# Two runs whose logs hold verdicts that open, change and end.
for run in a b; do
    "$LOCKSTEP" demo --name $run --ranks 4 --nodes 2 --steps 60 --step-ms 15 -f gpu-slow:rank=1,factor=4,step=8 -f kill:rank=2,step=40 \
        >"$TAP/demo.out" 2>&1 &
done
wait

ok "everything is written to a file" relay --to "file:$TAP/all.jsonl"
ids "$TAP/all.jsonl" | once >"$TAP/want"
[ "$(wc -l <"$TAP/want")" -ge 6 ]
tap_result $? "which has several events of each run"
is "equal ids mean equal events" "$(sort -u "$TAP/all.jsonl" | ids /dev/stdin | sort | uniq -d | wc -l)" 0
python3 - "$TAP/all.jsonl" >"$TAP/out" 2>"$TAP/err" <<'END'
import json, sys
for line in open(sys.argv[1]):
    event = json.loads(line)
    assert list(event)[:7] == ["schema", "event", "type", "time", "run", "severity", "text"], line
    assert event["run"] in "ab" and event["type"] in ("verdict", "decision", "outcome"), line
    assert event["type"] != "verdict" or event["verdict"]["because"], line
END
tap_result $? "each line is JSON with the documented members"
is "only its user may read the file" "$(stat -c %a "$TAP/all.jsonl")" 600
ok "a second time" relay --to "file:$TAP/again.jsonl"
[ ! -s "$TAP/again.jsonl" ]
tap_result $? "nothing is sent, since the cursor knows it"

# Kills: a relay that delivers one batch at a time is killed over and over.  Nothing is missing afterwards.
receive killed tcp json 3
i=0
while [ $i -lt 12 ]; do
    timeout -s KILL 0.$((i % 4 + 1)) "$LOCKSTEP" relay --name killed --to "tcp://127.0.0.1:$port" >"$TAP/out" 2>"$TAP/err"
    i=$((i + 1))
done
stop
receive killed tcp json
ok "after many kills and dropped connections" relay --name killed --to "tcp://127.0.0.1:$port"
stop
is "no event is missing" "$(ids "$TAP/killed" | sort -u | cmp - "$(sort "$TAP/want" >"$TAP/sorted" && echo "$TAP/sorted")" && echo all)" all
for run in a b; do
    grep "^[0-9a-f]* $run " "$TAP/killed" | ids /dev/stdin | once >"$TAP/got"
    grep "\"run\":\"$run\"" "$TAP/all.jsonl" | ids /dev/stdin | once >"$TAP/expected"
    ok "those of run $run arrive in their order" cmp "$TAP/got" "$TAP/expected"
done
[ ! -s "$TAP/killed.err" ] || grep -q reset "$TAP/killed.err"
tap_result $? "and every message was whole"

# Syslog over TLS.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$TAP/key.pem" -out "$TAP/cert.pem" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost >"$TAP/openssl" 2>&1
receive syslog "tls:$TAP/cert.pem:$TAP/key.pem" syslog
ok "syslog over TLS" relay --name tls --to "syslog+tls://localhost:$port" --ca "$TAP/cert.pem"
is "has every event" "$(ids "$TAP/syslog" | once | cmp - "$TAP/want" && echo all)" all
has "with a sentence" ' a verdict straggler: rank 1 \(node n0\) delays the others' "$TAP/syslog"
exits 3 "a certificate that is not trusted" relay --name tls2 --to "syslog+tls://localhost:$port"
has "is named" 'certificate' "$TAP/err"
exits 3 "so is one for another name" relay --name tls2 --to "syslog+tls://127.0.0.1:$port" --ca "$TAP/cert.pem"
[ ! -e "$LOCKSTEP_STATE/relay/tls2.cursor" ]
tap_result $? "no cursor moves"
stop
receive plain unix syslog
ok "syslog to a socket" relay --name unix --to "syslog+unix:$TAP/sock"
is "has every event, too" "$(ids "$TAP/plain" | once | cmp - "$TAP/want" && echo all)" all
stop
exits 3 "a receiver that is not there" relay --name gone --to "tcp://127.0.0.1:1"
has "is named" '127.0.0.1:1' "$TAP/err"

# A compacted log is another file: what was delivered stays delivered, and nothing is lost.
touch -d '40 days ago' "$LOCKSTEP_STATE"/runs/[ab]/log.lsf
"$LOCKSTEP" control --tidy >"$TAP/out" 2>"$TAP/err"
has "the logs are compacted" '2 compacted' "$TAP/out"
ok "after a compaction" relay --to "file:$TAP/compacted.jsonl"
: >>"$TAP/compacted.jsonl"
is "no event appears that was none before" "$(ids "$TAP/compacted.jsonl" | sort -u | comm -23 - "$TAP/sorted" | wc -l)" 0
rm "$LOCKSTEP_STATE/relay/unix.cursor"
ok "a relay without a cursor" relay --name unix --to "file:$TAP/compacted.jsonl"
is "finds all of them in the compacted logs" "$(ids "$TAP/compacted.jsonl" | once | cmp - "$TAP/want" && echo all)" all

# Damage, and bad usage.
printf 'lockstep-relay-cursor 1\nlog 1 2 3\nend 1\n' >"$LOCKSTEP_STATE/relay/bad.cursor"
exits 2 "a damaged cursor is refused" relay --name bad --to -
has "with its line" "bad.cursor: line 2: expected" "$TAP/err"
head -c 40 "$LOCKSTEP_STATE/relay/relay.cursor" >"$LOCKSTEP_STATE/relay/bad.cursor"
exits 2 "so is one that is cut" relay --name bad --to -
for to in http://x:1 tcp://x tcp://x:0 file: syslog+udp://x:1 'tls://x:1/path'; do
    exits 2 "--to $to is refused" "$LOCKSTEP" relay --once --to "$to"
done
exits 2 "an id of structured data that RFC 5424 does not allow" "$LOCKSTEP" relay --once --to - --sd-id 'a b'
ln -s "$TAP/elsewhere" "$TAP/link.jsonl"
exits 3 "a symbolic link is not followed" relay --name link --to "file:$TAP/link.jsonl"
ok "a full disk is no success" sh -c '! "$0" relay --once --name full --to - >/dev/full' "$LOCKSTEP"

# A line that a killed relay did not finish, and a file that was rotated.
printf '{"schema":1,"event":"00' >"$TAP/torn.jsonl"
ok "behind a torn line" relay --name torn --to "file:$TAP/torn.jsonl"
is "each event has a line of its own" "$(sed 1d "$TAP/torn.jsonl" | ids /dev/stdin | sort -u | comm -12 - "$TAP/sorted" | wc -l)" "$(ids "$TAP/torn.jsonl" | sed 1d | sort -u | wc -l)"

"$LOCKSTEP" relay --name live --new-only --to "file:$TAP/live.jsonl" 2>"$TAP/live.err" &
receiver=$!
await test -e "$LOCKSTEP_STATE/relay/live.cursor"
exits 2 "a second relay of the same name" "$LOCKSTEP" relay --name live --once --to -
has "is refused" "another relay named 'live' is running" "$TAP/err"
"$LOCKSTEP" demo --name c --ranks 4 --steps 40 --step-ms 15 -f gpu-slow:rank=1,factor=4,step=8 >"$TAP/demo.out" 2>&1
await grep -q '"run":"c"' "$TAP/live.jsonl"
tap_result $? "a run that begins later is followed"
lacks "and only what is new is sent" '"run":"[ab]"' "$TAP/live.jsonl"
mv "$TAP/live.jsonl" "$TAP/live.1"
"$LOCKSTEP" demo --name d --ranks 4 --steps 40 --step-ms 15 -f gpu-slow:rank=1,factor=4,step=8 >"$TAP/demo.out" 2>&1
await grep -q '"run":"d"' "$TAP/live.jsonl"
tap_result $? "a file that was rotated is created again"
kill -TERM $receiver
wait $receiver
is "SIGTERM ends it" $? 0
receiver=''
done_testing
