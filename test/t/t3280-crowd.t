#!/bin/sh
# Very many connections that want nothing, or send their request a byte at a time: the controller says so, and
# agents and readers are served meanwhile.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=20 RANKS=2
site=$TAP/site user=$TAP/user
control='' crowd=''
trap 'kill -9 $control $crowd 2>/dev/null; rm -rf "$TAP"' EXIT

begin() # FILES [ADDRESS]: a controller that may open so many
{
    rm -f "$site/control.url"
    (ulimit -n "$1" && LOCKSTEP_STATE=$site exec "$LOCKSTEP" control --listen "${2:-127.0.0.1}:0") 2>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(sed s/0.0.0.0/127.0.0.1/ "$site/control.url")
    port=${url##*:}
    await curl -sfk "$url/healthz"
}

end()
{
    kill -TERM "$control" && wait "$control"
}

gather() # KIND COUNT [FROM]: leaves when its input ends
{
    rm -f "$TAP/hold"
    mkfifo "$TAP/hold"
    python3 "$SOURCE/test/t/crowd.py" "$1" "$port" "$2" ${3:+"$3"} <"$TAP/hold" >"$TAP/crowd" 2>&1 &
    crowd=$!
    exec 7>"$TAP/hold"
}

leave()
{
    exec 7>&-
    wait "$crowd"
    crowd=''
}

status() # CURL-ARGUMENT...
{
    curl -sk -m 60 -o "$TAP/out" -w '%{http_code}' "$@"
}

train() # NAME
{
    LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
        timeout -k 5 90 "$LOCKSTEP" run -q --name "$1" -n $RANKS -- "$LOCKSTEP" trainer --steps $STEPS \
        >"$TAP/run.out" 2>"$TAP/run.err"
}

steps() # RUN: of all ranks, in the controller's log
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" why --json "$1" >"$TAP/out" 2>"$TAP/err"
    number steps
}

connections() # LEAST: are there so many?
{
    [ "$(curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/metrics" | sed -n 's/^lockstep_http_connections //p')" -ge "$1" ]
}

command -v python3 >/dev/null || skip_all "no python3 here"

# As many as a large site has, and none of them says a word.
files=$(ulimit -H -n)
[ "$files" = unlimited ] && files=65536
if [ "$files" -ge 15000 ]; then
    begin "$files"
    gather idle 10000
    ok "10,000 idle connections are let in" await connections 10000
    is "a reader is answered beside them" "$(status -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs")" 200
    train r1
    is "a run's facts come in" $? 0
    is "all of them" "$(steps r1)" $((STEPS * RANKS))
    ok "while the idle ones are still there" connections 10000
    leave
    end
    is "it ends when told" $? 0
else
    skip "10,000 idle connections are let in" "only $files files may be open here (ulimit -H -n)"
fi

# Far more than there is room for.
begin 300
has "it says how many there is room for" 'for at most 44 connections' "$TAP/control.err"
gather idle 400
await grep -q 'of at most 44 connections are open: idle ones are closed' "$TAP/control.err"
tap_result $? "it says that connections run short, and what can be done"
is "a reader gets its turn" "$(status -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs")" 200
train r2
is "a run's facts come in" $? 0
is "all of them" "$(steps r2)" $((STEPS * RANKS))
leave

# A byte at a time: none of them keeps its place by that.
gather drip 42
await grep -q '^all [1-9]' "$TAP/crowd"
tap_result $? "drippers are let in"
is "a reader is answered beside them" "$(status "$url/healthz")" 200
await grep -qx none "$TAP/crowd"
tap_result $? "they are closed though their bytes come steadily"
leave
curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/metrics" >"$TAP/metrics"
has "and counted" '^lockstep_http_slow_total [1-9]' "$TAP/metrics"
head -c 40000 /dev/zero | tr '\0' x | sed 's/^/X-Large: /' >"$TAP/large"
is "headers have a limit" "$(status -H "@$TAP/large" "$url/healthz")" 431
dd if=/dev/zero bs=1000000 count=9 2>/dev/null | curl -s -m 60 -o "$TAP/out" -T - -X POST \
    -K "$(bearer "$site/runs/r2/agent.token")" "$url/api/v1/frames?run=r2"
[ $? -ne 0 ] || ! grep -q taken "$TAP/out"
tap_result $? "so has a body whose length was not told"
is "and it goes on" "$(status "$url/healthz")" 200
end
is "it ends when told" $? 0

# Off loopback one address does not take all places.
begin 300 0.0.0.0
has "it says what one address may have" 'accepting at most 22 connections from one address' "$TAP/control.err"
gather idle 60 127.0.0.2
await grep -qx 'left 22' "$TAP/crowd"
tap_result $? "one address gets no more than that"
is "another is served beside it" "$(status -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs")" 200
leave
end
is "and it ends when told" $? 0
done_testing
