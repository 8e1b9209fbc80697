#!/bin/sh
# The disk of a site's controller is full for a while: it says so, is not ready, and takes everything when it
# can again; the job does not notice.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "a small disk of its own needs root"
site=$TAP/site user=$TAP/user
mkdir "$site"
mount -t tmpfs -o size=4m,mode=700 lockstep-t "$site" 2>/dev/null ||
    skip_all "a small disk cannot be mounted here"

STEPS=600 RANKS=2
control='' run=''
leave()
{
    [ -z "$run" ] || kill "$run" 2>/dev/null
    [ -z "$control" ] || kill "$control" 2>/dev/null
    wait
    umount "$site"
    rm -rf "$TAP"
}
trap leave EXIT

ready() { curl -sf "$url/readyz"; }
unready() { [ "$(curl -s -o "$TAP/out" -w '%{http_code}' "$url/readyz")" = 503 ]; }
is_full() { ! dd if=/dev/zero bs=4k count=1 >>"$site/ballast" 2>/dev/null; }

LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
url=$(cat "$site/control.url")
await ready
LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token \
    timeout -k 5 90 "$LOCKSTEP" run -q --name r1 -n $RANKS -- "$LOCKSTEP" trainer --steps $STEPS --step-ms 10 \
    --host-work-ms 0 >"$TAP/run.out" 2>"$TAP/run.err" &
run=$!
await test -s "$site/runs/r1/log.lsf"
dd if=/dev/zero of="$site/ballast" bs=64k 2>/dev/null
await is_full
await unready
tap_result $? "with a full disk it is not ready"
has "and says why" 'No space left' "$TAP/out"
is "but alive" "$(curl -s "$url/healthz")" ok
spooled() { [ "$(cat "$user"/runs/r1/spool/*.lsf | wc -c)" -gt "$1" ]; }
await spooled $(($(cat "$user"/runs/r1/spool/*.lsf | wc -c) + 20000)) # which nobody takes
tap_result $? "the job goes on meanwhile"
rm "$site/ballast"
await ready
tap_result $? "with room again it is"
wait $run
is "the job does not notice" $? 0
run=''
LOCKSTEP_STATE=$site "$LOCKSTEP" why --json r1 >"$TAP/out" 2>"$TAP/err"
is "every step is in the log once" "$(number steps)" $((STEPS * RANKS))
is "no frame is lost" "$(number lost_frames)" 0
ok "and gives the same verdicts again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay r1
kill -TERM $control
wait $control
is "it ends when told" $? 0
control=''
done_testing
