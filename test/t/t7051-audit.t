#!/bin/sh
# The audit trail: who asked what, by the name of a token and never its value, also when it was refused; and users whom a proxy names.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

trail=$site/audit.jsonl
record() # EXTENDED-REGEXP: the last such record
{
    grep -E -- "$1" "$trail" | tail -n 1
}
member() # NAME LINE
{
    printf '%s\n' "$2" | sed -n "s/.*\"$1\":\\(\"[^\"]*\"\\|[^,}]*\\).*/\\1/p" | tr -d '"'
}

mkdir -p "$site/tokens"
printf 'lst_%064d\n' 7 >"$site/tokens/reader-ada.token"
printf 'lst_%064d\n' 8 >"$site/tokens/proxy-sso.token"
chmod 600 "$site"/tokens/*
site_start --user-header X-Remote-User
ada=$(bearer "$site/tokens/reader-ada.token")
is "a run is registered" "$(register r1)" 200
line=$(record '"path":"/api/v1/runs"')
is "by the token of this name" "$(member who "$line") $(member result "$line") $(member from "$line")" "launch done 127.0.0.1"

is "a reader reads" "$(status -K "$ada" "$api/verdicts?run=r1")" 200
is "and again" "$(status -K "$ada" "$api/verdicts?run=r1")" 200
is "which is one record" "$(grep -c '"who":"reader-ada"' "$trail")" 1
is "of this run" "$(member run "$(record reader-ada)")" r1
is "a reader may not file a request" "$(status -K "$ada" -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 403
line=$(record '"who":"reader-ada".*/requests')
is "it is recorded as refused" "$(member result "$line") $(member status "$line") $(member run "$line")" "refused 403 r1"
is "the administrator may" "$(status -K "$(bearer "$site/tokens/admin.token")" -d '{"kind":"checkpoint-now"}' "$api/runs/r1/requests")" 202
line=$(record '"who":"admin".*/requests')
is "what was asked for is recorded" "$(member what "$line") $(member result "$line")" "checkpoint-now done"

printf 'header = "Authorization: Bearer lst_%064d"\n' 9 >"$TAP/wrong"
for i in 1 2 3 4 5 6 7 8; do
    status -K "$TAP/wrong" "$api/runs/guess-$i?secret=hunter$i" >/dev/null
done
is "an unknown token is recorded once" "$(grep -c '"who":null.*"status":401' "$trail")" 1
is "a wrong host, too" "$(status -H 'Host: evil.example' -K "$ada" "$api/runs")" 403
has "is recorded" '"who":null.*"status":403' "$trail"
address=$(LOCKSTEP_STATE=$site "$LOCKSTEP" control --page | head -n 1)
curl -s -o /dev/null "$address"
has "a session of a browser has the name of the token that began it" '"who":"page of (reader|admin)".*"what":"session of the page"' "$trail"
site_stop
has "what was repeated is counted" '"who":null.*"status":401.*"count":7' "$trail"

cat "$site"/tokens/*.token "$site"/runs/*/agent.token | cut -c5- >"$TAP/secrets"
is "no token, query or ticket is in the trail" "$(grep -c -F -f "$TAP/secrets" "$trail") $(grep -cE 'hunter|ticket=|lst_' "$trail")" "0 0"
is "only its owner may read it" "$(stat -c %a "$trail")" 600
is "numbers have no gap" "$(sed 's/^{"n":\([0-9]*\),.*/\1/' "$trail" | tr '\n' ' ')" "$(seq -s ' ' 1 "$(wc -l <"$trail")") "

# A proxy.
site_start --user-header X-Remote-User
sso=$(bearer "$site/tokens/proxy-sso.token")
is "numbers count on after a restart" "$(status -K "$sso" -H 'X-Remote-User: grace' "$api/runs"; tail -n 1 "$trail" | sed 's/^{"n":\([0-9]*\),.*/ \1/')" "200 $(wc -l <"$trail")"
is "a user whom the proxy names may read, and is recorded" "$(member who "$(tail -n 1 "$trail")")" "user grace"
is "but not write" "$(status -K "$sso" -H 'X-Remote-User: grace' -d '{"run":"r9"}' "$api/runs")" 403
is "nor begin a session that outlives the proxy's own" "$(status -K "$sso" -H 'X-Remote-User: grace' -X POST -d '{}' "$api/login-links")" 403
is "the proxy's token alone opens nothing" "$(status -K "$sso" "$api/runs")" 401
is "nor with an empty name" "$(status -K "$sso" -H 'X-Remote-User;' "$api/runs")" 401
is "nor with two names" "$(status -K "$sso" -H 'X-Remote-User: a' -H 'X-Remote-User: b' "$api/runs")" 401
is "the header alone opens nothing" "$(status -H 'X-Remote-User: grace' "$api/runs")" 401
is "and a reader who sends it stays a reader" "$(status -K "$ada" -H 'X-Remote-User: root' "$api/verdicts"; tail -n 1 "$trail" | grep -c 'user root')" 2000
kill -HUP $control
await grep -q 'tokens read again' "$trail"
tap_result $? "tokens that are read again are recorded"
site_stop
site_start
is "without the option the proxy's token opens nothing" "$(status -K "$sso" -H 'X-Remote-User: grace' "$api/runs")" 401

# On to a SIEM, also across a kill of the controller in the middle of a record.
kill -9 $control
wait $control 2>/dev/null
control=''
printf '{"n":99' >>"$trail"
site_start
is "after a torn record" "$(status -K "$ada" "$api/verdicts?run=r1")" 200
await grep -q '"who":"reader-ada".*"run":"r1"' "$trail"
is "the trail is whole again" "$(grep -vc '^{"n":[0-9]*,.*}$' "$trail")" 0
ok "all of it is sent" "$LOCKSTEP" relay --state "$site" --once --to "file:$TAP/siem.jsonl"
is "each record once" "$(grep -c '"type":"audit"' "$TAP/siem.jsonl")" "$(wc -l <"$trail")"
has "refused ones as warnings" '"severity":"warning","text":"refused: POST /api/v1/runs/r1/requests by reader-ada from 127.0.0.1' "$TAP/siem.jsonl"
next=$(($(sed -n '$s/^{"n":\([0-9]*\),.*/\1/p' "$trail") + 5))
printf '{"n":%d,"time":"2026-01-01T00:00:00.000Z","who":null,"result":"done"}\n' $next >>"$trail"
ok "a gap in the numbers" "$LOCKSTEP" relay --state "$site" --once --to "file:$TAP/gap.jsonl"
has "is an event of its own" '"type":"gap".*"missing":4' "$TAP/gap.jsonl"
is "no token is in what was sent" "$(grep -c -F -f "$TAP/secrets" "$TAP/siem.jsonl")" 0
site_stop
done_testing
