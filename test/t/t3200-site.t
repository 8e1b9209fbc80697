#!/bin/sh
# The controller of a site: a real run sends its facts over HTTP, and `why` tells them from the
# controller's log as if it had been there; restarts, strangers and nonsense cost nothing.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=20 RANKS=3
site=$TAP/site user=$TAP/user
control=

begin() # [OPTION...]: a controller on a free port
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${listen:-127.0.0.1:0}" "$@" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url")
    await curl -sfk "$url/healthz"
}

end()
{
    kill -TERM "$control" && wait "$control"
}
trap '[ -z "$control" ] || kill -9 $control 2>/dev/null; rm -rf "$TAP"' EXIT

status() # CURL-ARGUMENT...: the status, and the body in $TAP/out
{
    curl -sk -o "$TAP/out" -w '%{http_code}' "$@"
}

train() # NAME [OPTION...]
{
    name=$1
    shift
    LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
        timeout -k 5 90 "$LOCKSTEP" run -q --name "$name" -n $RANKS "$@" -- \
        "$LOCKSTEP" trainer --steps $STEPS >"$TAP/run.out" 2>"$TAP/run.err"
}

why() # RUN [OPTION...]
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" why "$@" >"$TAP/out" 2>"$TAP/err"
}

begin
is "it is alive" "$(status "$url/healthz")" 200
is "and ready" "$(status "$url/readyz")" 200
is "tokens are for nobody else" "$(stat -c %a "$site/tokens/launch.token")" 600

train r1
is "a run sends its facts there" $? 0
why r1 --json
is "every step of every rank is in its log once" "$(number steps)" $((STEPS * RANKS))
is "no frame is lost" "$(number lost_frames)" 0
has "the books are closed" '"source": "log",' "$TAP/out"
has "the run has ended well" '"status": 0,' "$TAP/out"
why r1 --replay
has "the log gives the same verdicts again" 'byte-equal$' "$TAP/out"
cmp -s "$user/runs/r1/agent.token" "$site/runs/r1/agent.token"
tap_result $? "the run has a token of its own"

# A controller that is killed in the middle of a run.
train r2 --nodes 2 &
train=$!
await test -s "$site/runs/r2/log.lsf"
kill -9 $control
wait $control 2>/dev/null
spool_size() { cat "$user"/runs/r2/spool/*.lsf | wc -c; }
spooled() { [ "$(spool_size)" -gt "$1" ]; }
await spooled $(($(spool_size) + 1000)) # which nobody takes
listen=${url#http://}
begin
wait $train
is "a run does not notice that its controller was killed" $? 0
why r2 --json
is "and every step is in the log once" "$(number steps)" $((STEPS * RANKS))
is "with no frame lost" "$(number lost_frames)" 0
why r2 --replay
has "and the same verdicts" 'byte-equal$' "$TAP/out"

# A controller that was away: the run's words wait, and are brought later.
end
is "it ends when told" $? 0
train r3
is "a run needs no controller" $? 0
has "it says why" 'run r3 is not registered with the controller: ' "$TAP/run.err"
later=$(sed -n 's/^lockstep run: the facts stay in .*; to send them: lockstep //p' "$TAP/run.err")
is "and how to send the facts later" "$(echo "$later" | cut -d ' ' -f 1-2)" "send --control"
before=$(date +%s%N)
train away
is "one that never reaches it, too" $? 0
tap_result $(($(date +%s%N) - before > 8000000000)) "it does not wait for the controller for long"
listen=${url#*://}
begin
listen=
# shellcheck disable=SC2086
ok "they are sent later, by the command as it is printed" env -u LOCKSTEP_STATE -u LOCKSTEP_CONTROL "$LOCKSTEP" $later
LOCKSTEP_STATE=$site "$LOCKSTEP" ps >"$TAP/out"
has "ps lists the site's runs, with their end" "^r3 +ended +$RANKS +0 +[0-9]+[sm].* 0  .*trainer" "$TAP/out"
LOCKSTEP_STATE=$site "$LOCKSTEP" ps --json >"$TAP/out"
has "and in JSON" '"id": ?"r1"' "$TAP/out"
ok "and again, which adds nothing" env LOCKSTEP_STATE="$user" LOCKSTEP_CONTROL="$url" \
    LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token" "$LOCKSTEP" send r3
why r3 --json
is "every step once" "$(number steps)" $((STEPS * RANKS))
is "no frame lost" "$(number lost_frames)" 0

# Strangers and nonsense.
frames=$url/api/v1/frames
launcher=$user/runs/r1/spool/launcher.lsf
is "nothing is written without a token" "$(status --data-binary @"$launcher" "$frames?run=r1")" 401
is "nor with a wrong one" "$(status -H 'Authorization: Bearer lst_wrong' --data-binary @"$launcher" \
    "$frames?run=r1")" 401
is "a run's token opens no other run" \
    "$(status -K "$(bearer "$user/runs/r1/agent.token")" --data-binary @"$launcher" "$frames?run=r2")" 401
is "the launch token brings no facts" \
    "$(status -K "$(bearer "$site/tokens/launch.token")" --data-binary @"$launcher" "$frames?run=r1")" 403
is "a reader begins no run" \
    "$(status -K "$(bearer "$site/tokens/reader.token")" -d '{"run":"mine"}' "$url/api/v1/runs")" 403
is "frames of another run are refused" \
    "$(status -K "$(bearer "$user/runs/r2/agent.token")" --data-binary @"$launcher" "$frames?run=r2")" 403
has "and it says so" "HELLO of run 'r1', but the token is for run 'r2'" "$TAP/out"
is "so are frames in the controller's name" \
    "$(status -K "$(bearer "$user/runs/r1/agent.token")" --data-binary @"$site/runs/r1/log.lsf" "$frames?run=r1")" 403
is "what came before is not taken twice" \
    "$(status -K "$(bearer "$user/runs/r1/agent.token")" --data-binary @"$launcher" "$frames?run=r1")" 200
has "but acknowledged" '"taken":0,"doubled":[1-9].*"durable":\[\{"sender":"[0-9a-f]{16}","boot":"[0-9a-f]{16}","next":[1-9]' "$TAP/out"
head -c 100 "$launcher" >"$TAP/torn"
is "half a frame is malformed" \
    "$(status -K "$(bearer "$user/runs/r1/agent.token")" --data-binary @"$TAP/torn" "$frames?run=r1")" 400
has "with the reason" 'frame at byte [0-9]+: the body ends inside the frame' "$TAP/out"
printf 'lockstep' >"$TAP/bad"
is "so is what is no frame" \
    "$(status -K "$(bearer "$user/runs/r1/agent.token")" --data-binary @"$TAP/bad" "$frames?run=r1")" 400
head -c 9000000 /dev/zero >"$TAP/large"
is "a body has a limit" \
    "$(status -K "$(bearer "$user/runs/r1/agent.token")" --data-binary @"$TAP/large" "$frames?run=r1")" 413
is "a name that is no run's is refused" \
    "$(status -K "$(bearer "$site/tokens/launch.token")" -d '{"run":"../../etc"}' "$url/api/v1/runs")" 400
is "nothing is where nothing is" "$(status "$url/api/v1/nothing")" 404
is "the wrong method is named" "$(status "$url/api/v1/frames")" 405
curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/metrics" >"$TAP/metrics"
has "what is malformed is counted" '^lockstep_ingest_malformed_total 2$' "$TAP/metrics"
has "and what is foreign" '^lockstep_ingest_foreign_total 2$' "$TAP/metrics"
if command -v promtool >/dev/null; then
    ok "metrics are as Prometheus wants them" sh -c 'promtool check metrics <"$1"' sh "$TAP/metrics"
else
    skip "metrics are as Prometheus wants them" "no promtool here"
fi

exits 2 "a second controller is told about the first" env LOCKSTEP_STATE="$site" "$LOCKSTEP" control \
    --listen 127.0.0.1:0
has "with its address" "another controller is running on .*: pid $control, $url$" "$TAP/err"
exits 2 "an address must be one" "$LOCKSTEP" control --listen here
grep -rl "$(cat "$site/tokens/launch.token")" "$TAP/control.err" "$user"/runs/r?/*.log >"$TAP/out"
[ ! -s "$TAP/out" ]
tap_result $? "no token is in any log"
end
is "it ends when told" $? 0

# Off loopback: TLS, and nobody reads without a token.
listen=0.0.0.0:0
begin
url=$(echo "$url" | sed s/0.0.0.0/127.0.0.1/)
case $url in https://*) true ;; *) false ;; esac
tap_result $? "off loopback it speaks TLS"
is "and tells nobody without a token" "$(status "$url/metrics")" 401
is "a reader's token reads" "$(status -K "$(bearer "$site/tokens/reader.token")" "$url/metrics")" 200
pin=$(sed -n 's/.*LOCKSTEP_CONTROL_PIN=//p' "$TAP/control.err" | tail -n 1)
LOCKSTEP_CONTROL_PIN=$pin
export LOCKSTEP_CONTROL_PIN
train r4
is "a run trusts it by its pin" $? 0
why r4 --json
is "and brings every step" "$(number steps)" $((STEPS * RANKS))
LOCKSTEP_CONTROL_PIN=sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
exits 3 "another key is not trusted" env LOCKSTEP_STATE="$user" LOCKSTEP_CONTROL="$url" \
    LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token" "$LOCKSTEP" send --patience 1s r4
end
is "and it ends when told" $? 0
done_testing
