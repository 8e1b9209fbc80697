#!/bin/sh
# The page where there is nothing, one rank, 16,384 ranks, hostile names, a wrong session, and no controller.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/page.sh"
. "$SOURCE/test/t/site.sh"
need_browser

send() # RUN RANKS STEPS SLOW NODE COMMAND [crash]
{
    register "$1" >/dev/null
    bodies=$("$BUILD/test/page-frames" "$1" "$2" "$3" "$4" "$5" "$6" "$TAP/$1" ${7:+"$7"}) || return 1
    for i in $(seq 0 $((bodies - 1))); do
        [ "$(post "$1" "$TAP/$1.$i")" = 200 ] || return 1
        rm "$TAP/$1.$i"
    done
}

site_start
reader_token=$(cat "$site/tokens/reader.token")
page edge empty "$url" "$reader_token"
page edge denied "$url" "$reader_token"
page edge pause "$url" "$reader_token"

send one 1 12 9 one train
tap_result $? "facts of one rank"
measured() # what was taken is judged at the next tick
{
    velocity=$(LOCKSTEP_STATE=$site "$LOCKSTEP" report --json one | python3 -c 'import json, sys; print(json.load(sys.stdin)["learning_velocity"])')
    [ "$velocity" != None ]
}
await measured
tap_result $? "its report has a learning velocity"
page edge one "$url" "$reader_token" one "$velocity"
send dead 2 12 9 dead train crash
tap_result $? "facts of a crash behind a verified checkpoint"
page edge dead "$url" "$reader_token" dead
page edge narrow "$url" "$reader_token" one

send hostile 8 20 3 '<img src=x onerror=alert(1)>' '<script>alert(2)</script>'
tap_result $? "facts with hostile names"
page edge hostile "$url" "$reader_token" hostile

port=${url##*:} old=$control
(
    await test -e "$TAP/flag.ready"
    kill -9 "$old"
    await test -e "$TAP/flag.lost"
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "127.0.0.1:$port" 2>>"$TAP/control.err" &
    echo $! >"$TAP/pid"
    await test -s "$site/control.url"
    : >"$TAP/flag.back"
) &
page edge lost "$url" "$reader_token" one "$TAP/flag"
control=$(cat "$TAP/pid")
done_testing
