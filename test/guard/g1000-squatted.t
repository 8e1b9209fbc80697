#!/bin/sh
# Another user takes the names that a run would use, or the run may not do much: the job is started nevertheless, and
# watched where that is possible.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/guard.sh"

shm=/dev/shm/lockstep-$ada
leave()
{
    rm -rf "$shm" "$TAP"
    find /dev/shm -maxdepth 1 -name 'lockstep.*' -user "$ada" -exec rm -rf {} +
}
trap leave EXIT
mkdir -m 700 "$TAP/ada" "$TAP/bob"
chown "$ada" "$TAP/ada"
chown "$bob" "$TAP/bob"

train() # NAME [VARIABLE=VALUE...]: three steps of one rank as ada
{
    train_name=$1
    shift
    as "$ada" TMPDIR="$TAP/ada" LOCKSTEP_STATE="$TAP/ada/state" "$@" timeout -k 5 60 "$LOCKSTEP" run --name "$train_name" -n 1 -- \
        "$LOCKSTEP" trainer --steps 20 --step-ms 10
}
steps() # DIRECTORY
{
    as "$ada" "$LOCKSTEP" why --json "$1" >"$TAP/out" 2>"$TAP/err"
    number steps
}

# Names in /dev/shm that are another's.
as "$bob" mkdir "$shm"
ok "a job runs while another user has its directory in /dev/shm" train dir
has "one line says where the rings are" "^lockstep run: $shm: not a directory that only you can write to; rings are in /dev/shm/lockstep\\." \
    "$TAP/err"
is "it is watched" "$(steps "$TAP/ada/state/runs/dir")" 20
is "no ring stays behind" "$(find /dev/shm -maxdepth 1 -name 'lockstep.*' -user "$ada" | wc -l)" 0
is "nothing was made in the other's directory" "$(find "$shm" | wc -l)" 1
rmdir "$shm"
as "$bob" ln -s "$TAP/bob" "$shm"
ok "a job runs while that name is a link of another user" train link
is "it is watched, too" "$(steps "$TAP/ada/state/runs/link")" 20
is "nothing was made where the link leads" "$(find "$TAP/bob" | wc -l)" 1
rm "$shm"
as "$bob" touch "$shm"
ok "a job runs while that name is a file of another user" train file
is "and is watched" "$(steps "$TAP/ada/state/runs/file")" 20
rm "$shm"

# A probe by itself, with no launcher: the same names.
as "$bob" mkdir "$shm"
ok "a rank without a launcher trains" as "$ada" TMPDIR="$TAP/ada" RANK=0 WORLD_SIZE=1 "$LOCKSTEP" trainer --steps 3 --step-ms 5
as "$bob" mkdir -p -m 755 "$TAP/bob/rings"
chmod 711 "$TAP/bob"
ok "one whose LOCKSTEP_DIR is another user's trains" as "$ada" RANK=0 WORLD_SIZE=1 LOCKSTEP_DIR="$TAP/bob/rings" "$LOCKSTEP" trainer \
    --steps 3 --step-ms 5
is "with one line" "$(grep -c 'is not observed: .*; training continues$' "$TAP/err")" 1
rmdir "$shm"

# A state directory that is there and not ours.
mkdir -m 755 "$TAP/theirs"
ok "a job runs when the state directory is another user's" train theirs LOCKSTEP_STATE="$TAP/theirs"
has "one line says where the run is" "^lockstep run: $TAP/theirs/.*: cannot be created: Permission denied; this run is recorded in $TAP/ada/lockstep\\." \
    "$TAP/err"
where=$(sed -n 's/.*recorded in \([^ ;]*\).*/\1/p' "$TAP/err")
is "which is watched" "$(steps "$where")" 20
ok "a job runs when no settings file may be read" train unread LOCKSTEP_CONFIG="$TAP/theirs/secret.yaml"
: >"$TAP/theirs/secret.yaml"
chmod 600 "$TAP/theirs/secret.yaml"
ok "and when it is there" train unread2 LOCKSTEP_CONFIG="$TAP/theirs/secret.yaml"
has "one line names it" "^lockstep run: $TAP/theirs/secret.yaml: Permission denied; all settings files are ignored" "$TAP/err"
ok "a job runs without a home directory" train homeless LOCKSTEP_STATE='' HOME=

# A directory that somebody else has made where everybody can.
mkdir -m 1777 "$TAP/public"
as "$bob" mkdir -m 777 "$TAP/public/job"
as "$bob" mkfifo -m 666 "$TAP/public/job/run.json"
exits 7 "a job runs whose --dir another user has made" as "$ada" TMPDIR="$TAP/ada" timeout 30 "$LOCKSTEP" run --dir "$TAP/public/job" \
    -- /bin/sh -c 'exit 7'
has "one line says where the run is" "^lockstep run: $TAP/public/job: belongs to user $bob; this run is recorded in $TAP/ada/lockstep\." \
    "$TAP/err"
as "$ada" mkdir -m 777 "$TAP/public/open"
as "$bob" mkfifo -m 666 "$TAP/public/open/run.json"
exits 7 "and one to which everybody can write" as "$ada" TMPDIR="$TAP/ada" timeout 30 "$LOCKSTEP" run --dir "$TAP/public/open" \
    -- /bin/sh -c 'exit 7'

# Few processes.  Root has no such limit.
for most in 1 2 3 4 5; do
    as "$ada" LOCKSTEP_STATE="$TAP/ada/state" prlimit --nproc=$most "$LOCKSTEP" run --name "few$most" -- /bin/sh -c \
        'echo "went on"; exit 7' >"$TAP/out" 2>"$TAP/err"
    echo "$? $(cat "$TAP/out")" >>"$TAP/few"
done
is "a command runs with 1 to 5 processes" "$(sort -u "$TAP/few")" "7 went on"
done_testing
