#!/bin/sh
# The log of a run that goes on stays short: old steps are merged while it is written, whoever is killed then.
# Nothing that was said changes, every step is counted once, the same verdicts come out of it again, and readers go on.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

RANKS=2 MAX=120000 SPOOLED=${LOCKSTEP_SPOOLED:-500000}
site=$TAP/site user=$TAP/user
control='' run='' listener=''
leave()
{
    for pid in $run $control $listener; do kill -9 "$pid" 2>/dev/null; done
    wait
    rm -rf "$TAP"
}
trap leave EXIT

begin()
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site LOCKSTEP_LOG_MAX=$MAX "$LOCKSTEP" control --listen "${listen:-127.0.0.1:0}" \
        2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url")
    await curl -sf "$url/healthz"
}
compacted() { [ "$(grep -c 'compacted its log' "$TAP/control.err")" -ge "$1" ]; }
is_over() { [ -e "$TAP/done" ]; }
making() { [ -e "$site/runs/r1/log.lsf.anew" ] || is_over; }
pages() # all rows of /steps, a few at a time
{
    after=0
    while :; do
        curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs/r1/steps?limit=40&after=$after" >"$TAP/page"
        grep -o '"step": *[0-9]*' "$TAP/page" | grep -o '[0-9]*$' >"$TAP/numbers" || break
        cat "$TAP/numbers"
        after=$(grep -o '"next": *[0-9]*' "$TAP/page" | grep -o '[0-9]*$') || break
        [ -n "$after" ] || break
        sleep "$1" # so that others write meanwhile
    done
}

printf 'lockstep-plan 1\nnodes 1\nfault gpu-slow:rank=1,factor=2,step=100\n' >"$TAP/plan"
begin
listen=${url#http://}
curl -sN -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/events?run=r1" >"$TAP/events" 2>/dev/null &
listener=$!
(LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
    timeout -k 5 600 "$LOCKSTEP" run -q --name r1 -n $RANKS -- "$LOCKSTEP" trainer --steps 1000000 --step-ms 5 \
    --host-work-ms 0 --stop-file "$TAP/stop" --plan "$TAP/plan" >"$TAP/run.out" 2>"$TAP/run.err"
    echo $? >"$TAP/done") &
run=$!
await compacted 1
tap_result $? "a log that grows is compacted"
pages 0.02 >"$TAP/paged"
await compacted 2
tap_result $? "again and again"
sort -n "$TAP/paged" | uniq -d >"$TAP/out"
[ -s "$TAP/paged" ] && [ ! -s "$TAP/out" ]
tap_result $? "whoever paged through its $(wc -l <"$TAP/paged") steps meanwhile got none twice"
before=$(grep -c '^event: progress' "$TAP/events")
grown() { [ "$(grep -c '^event: progress' "$TAP/events")" -gt "$before" ]; }
await grown
tap_result $? "and whoever listens goes on to hear"
kill $listener
wait $listener 2>/dev/null
listener=''
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
has "what was said stays" '"kind": "straggler"' "$TAP/out"
kills=0
while [ $kills -lt 4 ]; do
    await making # in the middle of it, or just after
    ! is_over || break
    kill -9 $control
    wait $control 2>/dev/null
    kills=$((kills + 1))
    begin
done
echo "# killed $kills times"
[ $kills -ge 2 ]
tap_result $? "the controller is killed while it compacts"
spooled() { [ "$(cat "$user"/runs/r1/spool/*.lsf | wc -c)" -gt "$SPOOLED" ] || is_over; }
await spooled
touch "$TAP/stop"
await is_over
is "the job does not notice" "$(cat "$TAP/done")" 0
wait $run
run=''
STEPS=$(sed -n 's/^done after \([0-9]*\) steps.*/\1/p' "$user/runs/r1/out/rank-0.log")
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
is "every step is counted once" "$(number steps)" $((STEPS * RANKS))
is "no frame is lost" "$(number lost_frames)" 0
is "nor could any not be understood" "$(number malformed)" 0
size=$(stat -c %s "$site/runs/r1/log.lsf")
whole=$(cat "$user"/runs/r1/spool/*.lsf | wc -c)
[ "$size" -lt $((2 * MAX)) ] && [ "$whole" -gt $((2 * size)) ]
tap_result $? "its log has $size bytes, its spools $whole"
told() { cat "$@" | grep -ao DOUBLING/SOCKET | wc -l; } # how collectives are moved
hows=$(told "$user"/runs/r1/spool/*.lsf)
[ "$hows" -gt 0 ]
tap_result $? "ranks said $hows times how they move collectives"
is "that is all kept" "$(told "$site/runs/r1/log.lsf")" "$hows"
ok "it is judged the same again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r1
has "with all that was said since then" 'byte-equal' "$TAP/out"
kill -TERM $control
wait $control
control=''
[ ! -e "$site/runs/r1/log.lsf.anew" ]
tap_result $? "nothing lies about"
rm -f "$site/index.sqlite"*
ok "an index can be made of it" env LOCKSTEP_STATE="$site" "$LOCKSTEP" control --reindex
touch -d '40 days ago' "$site/runs/r1/log.lsf"
ok "and when it is old" env LOCKSTEP_STATE="$site" "$LOCKSTEP" control --tidy
has "it is compacted as any other" ' 1 compacted' "$TAP/out"
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
is "still with every step" "$(number steps)" $((STEPS * RANKS))
is "and how collectives were moved" "$(told "$site/runs/r1/log.lsf")" "$hows"
done_testing
