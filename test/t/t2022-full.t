#!/bin/sh
# No room: the state directory or /dev/shm is full when a run begins, or its directory goes away while it runs.  The job
# is started, goes on, and ends as it ends.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "small disks need root"
mkdir "$TAP/disk" "$TAP/tmp"
export TMPDIR="$TAP/tmp"
# In a mount namespace of its own: disks of these sizes at state directory and /dev/shm, full.
cat >"$TAP/full" <<EOF
#!/bin/sh
mount -t tmpfs -o size=\$1,mode=700 lockstep-t "$TAP/disk" && mount -t tmpfs -o size=\$2,mode=1777 lockstep-t /dev/shm || exit 77
[ "\$1" != 64k ] || dd if=/dev/zero of="$TAP/disk/ballast" bs=4k 2>/dev/null
[ "\$2" != 64k ] || dd if=/dev/zero of=/dev/shm/ballast bs=4k 2>/dev/null
shift 2
exec "\$@"
EOF
chmod +x "$TAP/full"
unshare -m "$TAP/full" 64k 64k true 2>/dev/null || skip_all "a small disk cannot be mounted here"
LOCKSTEP_STATE=$TAP/disk
cat >"$TAP/job" <<EOF
#!/bin/sh
"$LOCKSTEP" trainer --steps 20 --step-ms 10 || exit 9
echo "went on"
exit 7
EOF
chmod +x "$TAP/job"

for what in "64k 64m" "64m 64k" "64k 64k"; do
    # shellcheck disable=SC2086
    exits 7 "a job runs with disks of $what" timeout -k 5 60 unshare -m "$TAP/full" $what "$LOCKSTEP" run --name full -n 1 -- "$TAP/job"
    has "its output passes" 'went on' "$TAP/out"
    lacks "no rank complains" 'is not observed' "$TAP/err"
    is "with three lines of ours at most" "$(grep '^lockstep run: ' "$TAP/err" | grep -vc ': [a-z-]*: rank\|:   because \|:   to do: \|; details: ' | sed 's/^[1-3]$/few/')" few
done
for dir in "$TAP"/tmp/lockstep.*; do
    "$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
    is "steps are seen nevertheless" "$(number steps)" 20
done

# The directory of a run is removed, or made read-only, while it runs.
cat >"$TAP/loses" <<EOF
#!/bin/sh
"$LOCKSTEP" trainer --steps 20 --step-ms 10 || exit 9
[ \$1 != remove ] || rm -rf "$TAP/disk/runs/lost"
[ \$1 != readonly ] || mount -o remount,ro "$TAP/disk"
[ \$1 != full ] || dd if=/dev/zero of="$TAP/disk/ballast" bs=4k 2>/dev/null
"$LOCKSTEP" trainer --steps 60 --step-ms 20 || exit 9
echo "went on"
exit 7
EOF
chmod +x "$TAP/loses"
for how in remove readonly full; do
    exits 7 "a job ends as it ends when its directory is lost: $how" timeout -k 5 100 unshare -m "$TAP/full" 4m 64m "$LOCKSTEP" run \
        --name lost -n 1 -- "$TAP/loses" $how
    has "its output passes" 'went on' "$TAP/out"
    is "with few words of ours" "$(grep -c '^lockstep run: ' "$TAP/err" | sed 's/^[1-9]$/few/')" few
done
done_testing
