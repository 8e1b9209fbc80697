#!/bin/sh
# A disk of its own, as small as it is mortal: power cut during ingest, full, read-only.  What was
# acknowledged is there afterwards, and the controller says what is wrong and goes on when it can.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "a disk of its own needs root"
for tool in mkfs.ext4 curl; do
    command -v $tool >/dev/null || skip_all "no $tool here"
done
disk=$TAP/disk site=$TAP/mnt control= poster=
mkdir "$site"
truncate -s 24M "$disk"
mkfs.ext4 -q -F "$disk" >/dev/null 2>&1 || skip_all "no ext4 can be made here"
mount -o loop "$disk" "$site" 2>/dev/null || skip_all "no loop device can be mounted here"

leave()
{
    [ -z "$poster" ] || kill "$poster" 2>/dev/null
    [ -z "$control" ] || kill -9 "$control" 2>/dev/null
    wait
    umount "$site" 2>/dev/null || umount -l "$site"
    rm -rf "$TAP"
}
trap leave EXIT

begin() # a controller on a free port
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url")
    await curl -sf "$url/healthz"
}

bearer() # FILE
{
    printf 'header = "Authorization: Bearer %s"\n' "$(cat "$1")" >"$TAP/curlrc"
}

status() # CURL-ARGUMENT...
{
    curl -s --max-time 10 -o "$TAP/body" -w '%{http_code}' -K "$TAP/curlrc" "$@"
}

post() # FIRST COUNT: the status
{
    "$BUILD/test/frames" make "$1" "$2" >"$TAP/frames"
    status --data-binary @"$TAP/frames" "$url/api/v1/frames?run=cut"
}

# Bodies of 20 frames, one after the other, until one is not acknowledged.
post_all() # FIRST
{
    at=$1
    while [ "$(post "$at" 20)" = 200 ]; do
        at=$((at + 20))
        echo "$at" >>"$TAP/acknowledged"
    done
}

acknowledged() { tail -n 1 "$TAP/acknowledged"; }
many() { [ "$(wc -l <"$TAP/acknowledged")" -ge "$1" ]; }
is_not() { [ "$(status "$url/$1")" != 200 ]; }
is_so() { [ "$(status "$url/$1")" = 200 ]; }

begin
bearer "$site/tokens/launch.token"
[ "$(status -d '{"run":"cut"}' "$url/api/v1/runs")" -lt 300 ]
tap_result $? "a run is registered"
cp "$site/runs/cut/agent.token" "$TAP/agent.token"
bearer "$TAP/agent.token"
sync -f "$site" # who was registered is told so by hand; its token must be there, too

: >"$TAP/acknowledged"
post_all 0 &
poster=$!
await many 40
ok "the power is cut" "$BUILD/test/frames" cut "$site"
wait $poster
poster=
await is_not readyz
tap_result $? "the controller says that it is not ready"
last=$(acknowledged)
kill -9 $control
wait $control 2>/dev/null
umount "$site"
ok "the disk comes back" mount -o loop "$disk" "$site"
"$BUILD/test/frames" numbers "$site/runs/cut/log.lsf" >"$TAP/numbers"
grep -v damaged "$TAP/numbers" >"$TAP/there"
seq 0 $((last - 1)) >"$TAP/wanted"
head -n "$last" "$TAP/there" | cmp -s - "$TAP/wanted"
tap_result $? "all $last acknowledged frames are there, in order and once"
begin
bearer "$TAP/agent.token"
[ "$(post 0 $((last + 40)))" = 200 ]
tap_result $? "what was not acknowledged is brought again"
kill -TERM $control
wait $control
"$BUILD/test/frames" numbers "$site/runs/cut/log.lsf" >"$TAP/out"
{ seq 0 $((last + 39)); echo "damaged 0"; } | cmp -s - "$TAP/out"
tap_result $? "and then every frame is there once, and nothing else"

# Full.
begin
bearer "$TAP/agent.token"
dd if=/dev/zero of="$site/ballast" bs=64k 2>/dev/null
dd if=/dev/zero of="$site/ballast2" bs=512 2>/dev/null
at=$((last + 40)) refused=no
for _ in 1 2 3 4 5 6 7 8 9 10; do # some room may be left in the log's last block
    if [ "$(post $at 200)" != 200 ]; then
        refused=yes
        break
    fi
    at=$((at + 200))
done
[ $refused = yes ]
tap_result $? "what does not fit is not acknowledged"
await is_not readyz
tap_result $? "a controller on a full disk is not ready"
[ "$(status "$url/healthz")" = 200 ]
tap_result $? "but alive"
has "it says why" 'No space left on device' "$TAP/control.err"
rm "$site/ballast" "$site/ballast2"
again() { [ "$(post $at 200)" = 200 ]; }
await again
tap_result $? "with room again it goes on"
await is_so readyz
tap_result $? "and is ready"
kill -TERM $control
wait $control
control=
"$BUILD/test/frames" numbers "$site/runs/cut/log.lsf" >"$TAP/out"
{ seq 0 $((at + 199)); echo "damaged 0"; } | cmp -s - "$TAP/out"
tap_result $? "every acknowledged frame is there once"

# Read-only.
ok "the disk is read-only now" mount -o remount,ro "$site"
LOCKSTEP_STATE=$site timeout 20 "$LOCKSTEP" control --listen 127.0.0.1:0 >"$TAP/out" 2>"$TAP/err"
code=$?
[ $code != 0 ] && [ $code != 124 ]
tap_result $? "a controller does not begin there"
has "and says why" 'Read-only file system' "$TAP/err"
done_testing
