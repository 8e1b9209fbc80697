#!/bin/sh
# A run may have the name of any file of the state directory: runs have a folder of their own, at a site as on a
# user's machine, and the controller works on as before and after a restart.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

site=$TAP/site
names='ready tokens tls control.lock control.url index.sqlite index.sqlite-journal index.sqlite-wal runs'
control=

begin()
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url")
    await curl -sf "$url/healthz"
}

end()
{
    kill -TERM "$control" && wait "$control"
}
trap '[ -z "$control" ] || kill -9 $control 2>/dev/null; rm -rf "$TAP"' EXIT

status() # TOKEN-FILE CURL-ARGUMENT...: the status, and the body in $TAP/out
{
    printf 'header = "Authorization: Bearer %s"\n' "$(cat "$1")" >"$TAP/curlrc"
    shift
    curl -s -K "$TAP/curlrc" -o "$TAP/out" -w '%{http_code}' "$@"
}

# Before the controller ever had such a file: a run that takes its place would stop the next start.
mkdir -p "$site"
begin
launch=$site/tokens/launch.token
"$BUILD/test/frames" make 0 5 >"$TAP/body"
for name in $names; do
    is "a run is called $name" "$(status "$launch" -d "{\"run\":\"$name\"}" "$url/api/v1/runs")" 200
    is "its facts are taken" "$(status "$site/runs/$name/agent.token" --data-binary @"$TAP/body" "$url/api/v1/frames?run=$name")" 200
done
is "the controller is ready" "$(curl -s -o "$TAP/out" -w '%{http_code}' "$url/readyz")" 200
end
is "it ends well" $? 0
begin
is "after a restart it is ready" "$(curl -s -o "$TAP/out" -w '%{http_code}' "$url/readyz")" 200
is "the tokens are as before" "$(status "$launch" -d '{"run":"tokens"}' "$url/api/v1/runs")" 200
listed()
{
    curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs?limit=100" >"$TAP/out"
    [ "$(grep -o "\"run\":" "$TAP/out" | wc -l)" = "$(echo $names | wc -w)" ]
}
await listed
tap_result $? "every one of them is listed"
end
lacks "nothing was an error" 'error|cannot|does not' "$TAP/control.err"

# On a user's machine.
ok "lockstep run takes such a name" "$LOCKSTEP" run -q --name tokens -n 1 -- "$LOCKSTEP" trainer --steps 3
ok "ps lists it" "$LOCKSTEP" ps
has "by that name" '^tokens ' "$TAP/out"
ok "why finds it by its name" "$LOCKSTEP" why tokens
ok "and by its directory" "$LOCKSTEP" why "$LOCKSTEP_STATE/runs/tokens"
mv "$LOCKSTEP_STATE/runs/tokens" "$TAP/elsewhere"
ok "wherever that is" "$LOCKSTEP" why "$TAP/elsewhere"
exits 3 "one of a site has no run.json" "$LOCKSTEP" why "$site/runs/ready"
has "and is told all the same" "^run ready:" "$TAP/out"
done_testing
