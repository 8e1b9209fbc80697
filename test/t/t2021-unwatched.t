#!/bin/sh
# What watches may fail, what is watched may not: whatever is wrong around a run, its command is started, its output and
# exit status pass, and one line says what failed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

export TMPDIR="$TAP"
cat >"$TAP/job" <<'EOF'
#!/bin/sh
echo "to stdout ${RANK-no rank}"
echo "to stderr ${RANK-no rank}" >&2
exit 7
EOF
chmod +x "$TAP/job"

passes() # NAME COMMAND...: the job's output and status pass, with one line of ours
{
    passes_name=$1
    shift
    exits 7 "$passes_name: the job runs, and exits with its own status" timeout -k 5 60 "$@"
    is "$passes_name: stdout passes" "$(cat "$TAP/out")" "to stdout no rank"
    is "$passes_name: stderr passes" "$(grep -c '^to stderr no rank$' "$TAP/err")" 1
    is "$passes_name: one line says it" \
        "$(grep -v "^to stderr\|^lockstep run: $TAP/job exited with 7\|: steps were not observed\|:   to do: " "$TAP/err" |
            grep -c .)" 1
}

# The state directory.
mkdir "$TAP/sealed"
cat >"$TAP/seal" <<'EOF'
#!/bin/sh
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77
shift
exec "$@"
EOF
chmod +x "$TAP/seal"
if unshare -m "$TAP/seal" "$TAP/sealed" true 2>/dev/null; then
    LOCKSTEP_STATE=$TAP/sealed/state
    passes "a read-only state directory" unshare -m "$TAP/seal" "$TAP/sealed" "$LOCKSTEP" run -- "$TAP/job"
    has "it names the cause" '/sealed/state.*: Read-only file system; this run is recorded in' "$TAP/err"
else
    skip "a read-only state directory" "needs root"
fi
LOCKSTEP_STATE=/proc/nowhere
passes "a state directory that cannot be made" "$LOCKSTEP" run -- "$TAP/job"
has "it names the directory" '^lockstep run: /proc/nowhere.*: .*; this run is recorded in .*/lockstep\.[^ ]*' "$TAP/err"
where=$(sed -n 's/.*recorded in \([^ ;]*\).*/\1/p' "$TAP/err")
has "and what was said is there" 'to stdout' "$where/out/command.log"
exits 3 "the run can be read there" "$LOCKSTEP" why "$where"
has "with its end" 'ended with status 7' "$TAP/out"
is "the directory is its owner's alone" "$(stat -c %a "$where")" 700

LOCKSTEP_STATE=$TAP/file
: >"$TAP/file"
passes "a state directory that is a file" "$LOCKSTEP" run -- "$TAP/job"
mkdir -p "$TAP/broken/runs/r"
echo '{ nonsense' >"$TAP/broken/runs/r/run.json"
LOCKSTEP_STATE=$TAP/broken
passes "a run.json that is broken" "$LOCKSTEP" run --name r -- "$TAP/job"
passes "no home directory" env -u LOCKSTEP_STATE -u XDG_STATE_HOME HOME=nowhere "$LOCKSTEP" run --dir /proc/nowhere -- "$TAP/job"
LOCKSTEP_STATE=/proc/nowhere
cat >"$TAP/readonly" <<'EOF'
#!/bin/sh
for at in /tmp /var/tmp /dev/shm; do
    mount --bind $at $at && mount -o remount,bind,ro $at || exit 77
done
exec "$@"
EOF
chmod +x "$TAP/readonly"
if unshare -m "$TAP/readonly" true 2>/dev/null; then
    passes "no directory anywhere" env -u TMPDIR XDG_RUNTIME_DIR=/proc/none unshare -m "$TAP/readonly" "$LOCKSTEP" run -- \
        "$TAP/job"
    has "it says what to do" 'nothing is observed or recorded; set LOCKSTEP_STATE' "$TAP/err"
    ok "a rank makes no ring then, and says nothing of it" env -u TMPDIR unshare -m "$TAP/readonly" "$LOCKSTEP" run -n 1 -- \
        "$LOCKSTEP" trainer --steps 3 --step-ms 5
    lacks "nor of why" 'is not observed' "$TAP/err"
else
    skip "no directory anywhere" "needs root"
fi
LOCKSTEP_STATE=$TAP/state

# Settings.
echo 'nonsense: [' >"$TAP/bad.yaml"
passes "a broken settings file" env LOCKSTEP_CONFIG="$TAP/bad.yaml" "$LOCKSTEP" run -- "$TAP/job"
has "it names the file" '^lockstep run: .*/bad.yaml:.*; .*ignored' "$TAP/err"
passes "a settings file that is not there" env LOCKSTEP_CONFIG="$TAP/none.yaml" "$LOCKSTEP" run -- "$TAP/job"
printf 'run:\n  on-hang: dance\n' >"$TAP/bad.yaml"
passes "a setting that is out of place" env LOCKSTEP_CONFIG="$TAP/bad.yaml" "$LOCKSTEP" run -- "$TAP/job"
passes "a controller's address that is none" env LOCKSTEP_CONTROL=nonsense "$LOCKSTEP" run -- "$TAP/job"
has "only that is ignored" "LOCKSTEP_CONTROL: 'nonsense': .*; LOCKSTEP_CONTROL is ignored" "$TAP/err"
printf 'run:\n  ranks: 1\n' >"$TAP/one.yaml"
exits 7 "with a settings file beside it" env LOCKSTEP_CONTROL=nonsense LOCKSTEP_CONFIG="$TAP/one.yaml" "$LOCKSTEP" run -- "$TAP/job"
has "which is still read" '^\[rank 0\] to stdout 0$' "$TAP/out"
exits 2 "a settings file that the command line names must be right" "$LOCKSTEP" run --config "$TAP/none.yaml" -- "$TAP/job"
exits 2 "what the command line says must be right" "$LOCKSTEP" run --on-hang dance -- "$TAP/job"
exits 2 "other commands refuse a broken settings file" env LOCKSTEP_CONFIG="$TAP/bad.yaml" "$LOCKSTEP" version --nonsense

# Limits.
limited() # RANKS...: how a job ends with 4 to 24 open files
{
    for files in 4 5 6 7 8 9 10 11 12 13 14 15 16 18 20 22 24; do
        timeout -k 5 60 sh -c 'ulimit -n "$1" && shift && exec "$@"' sh $files "$LOCKSTEP" run --name "f$files-$#" "$@" -- \
            /bin/sh -c 'echo "went on"; exit 7' >"$TAP/out" 2>"$TAP/err"
        echo "$files: $? $(grep -c 'went on' "$TAP/out")" >>"$TAP/limited"
    done
}
limited
is "however few files may be open, a command runs and its output passes" "$(grep -vc ': 7 1$' "$TAP/limited")" 0
rm -f "$TAP/limited"
limited -n 1
is "so does a rank" "$(grep -vc ': 7 1$' "$TAP/limited")" 0
# Without files to write to: the output goes through a pipe.
before=$(find /dev/shm /tmp /var/tmp -maxdepth 1 -name 'lockstep.*' -user "$(id -u)" | sort)
{
    (ulimit -f 0 && exec "$LOCKSTEP" run -- "$TAP/job")
    echo "status $?"
} 2>&1 | cat >"$TAP/out"
has "no files at all: stdout passes" '^to stdout no rank$' "$TAP/out"
has "no files at all: stderr passes" '^to stderr no rank$' "$TAP/out"
has "no files at all: so does the status" '^status 7$' "$TAP/out"
is "no files at all: no directory stays that could not be used" \
    "$(find /dev/shm /tmp /var/tmp -maxdepth 1 -name 'lockstep.*' -user "$(id -u)" | sort)" "$before"
cat >"$TAP/limits" <<'EOF'
#!/bin/sh
ulimit -n
EOF
chmod +x "$TAP/limits"
ok "a rank keeps its limit of open files" sh -c "ulimit -Sn 40; exec \"\$@\"" sh "$LOCKSTEP" run -- "$TAP/limits"
is "exactly" "$(cat "$TAP/out")" 40

# The directory goes away in the middle of a run.
cat >"$TAP/loses" <<EOF
#!/bin/sh
rm -rf "$TAP/state/runs/lost"
"$LOCKSTEP" trainer --steps 20 --step-ms 20 >/dev/null 2>&1 || exit 9
echo "went on"
exit 7
EOF
chmod +x "$TAP/loses"
exits 7 "a run whose directory is removed goes on to its end" timeout -k 5 100 "$LOCKSTEP" run --name lost -n 1 -- "$TAP/loses"
has "with its output" 'went on' "$TAP/out"
done_testing
