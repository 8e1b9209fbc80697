#!/bin/sh
# A rank that is killed from elsewhere, and gone only after others have noticed: the kernel needs time to end a process
# that it kills for memory.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# Rank 1 is killed when rank 0 has ended already, and the launcher is ending all.
cat >"$TAP/rank" <<'END'
#!/bin/sh
if [ "$RANK" = 0 ]; then
    while [ ! -e "$1/ready" ]; do sleep 0.01; done
    echo "RuntimeError: Connection closed by peer [127.0.0.1]:4711" >&2
    exit 1
fi
trap 'kill -KILL $$' TERM
: >"$1/ready"
while :; do sleep 0.01; done
END
chmod +x "$TAP/rank"
exits 137 "the run ends with the status of the rank that the verdict names" "$LOCKSTEP" run -n 2 --name late --grace 30s "$TAP/rank" "$TAP"
"$LOCKSTEP" why late >"$TAP/out" 2>"$TAP/err"
has "the rank that was killed is the culprit" '^crash: rank 1 .*killed by signal 9' "$TAP/out"
has "the rank that noticed is a follow-on error" 'rank 0 exited with 1' "$TAP/out"

# One that ignores SIGTERM is killed by the launcher after the grace, and that is no crash.
cat >"$TAP/stays" <<'END'
#!/bin/sh
if [ "$RANK" = 0 ]; then
    while [ ! -e "$1/stays-ready" ]; do sleep 0.01; done
    exit 3
fi
trap '' TERM
: >"$1/stays-ready"
while :; do sleep 0.01; done
END
chmod +x "$TAP/stays"
exits 3 "a rank that stays is ended" "$LOCKSTEP" run -n 2 --name stays --grace 300ms "$TAP/stays" "$TAP"
"$LOCKSTEP" why stays >"$TAP/out" 2>"$TAP/err"
has "and the first one is the culprit" '^crash: rank 0 .*exited with 3' "$TAP/out"
lacks "the other one is not even a follow-on error" 'rank 1' "$TAP/out"
done_testing
