#!/bin/sh
# lockstep run under fire: launcher, keeper or a rank is killed at random moments, from the very start on.
# Whoever it is, nobody stays and the next start goes on.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

MARK=8$$3
SEED=${SEED:-$(date +%s)}
echo "# SEED=$SEED"

random() # LIMIT: sets $r
{
    SEED=$(((SEED * 1103515245 + 12345) % 2147483648))
    r=$((SEED / 65536 % $1))
}

sleepers()
{
    grep -lszE "(^|[^0-9])[8]${MARK#8}(\$|[^0-9])" /proc/[0-9]*/cmdline
}

nobody_sleeps()
{
    [ -z "$(sleepers)" ]
}

# Also when something here fails, nothing of this test stays.
trap 'kill -9 $(sleepers | tr -dc "0-9\n") 2>/dev/null; rm -rf "$TAP"' EXIT

cat >"$TAP/rank" <<END
#!/bin/sh
echo \$\$ >"$TAP/pid.\$RANK"
(setsid sh -c '(trap "" TERM; sleep $MARK; :) & exec sleep $MARK' &)
[ "\$LOCKSTEP_RESTART" -lt 25 ] || exit 0
exec sleep $MARK
END
chmod +x "$TAP/rank"

victim_pid() # NAME: sets $pid, empty when it is not there yet
{
    case $1 in
    launcher) pid=$launcher ;;
    keeper) pid=$(sed -n 's/^ *"keeper": *\([0-9]*\),$/\1/p' "$LOCKSTEP_STATE/runs/fire/run.json" 2>/dev/null) ;;
    rank) pid=$(cat "$TAP/pid.1" 2>/dev/null) ;;
    esac
}

gone() # PID
{
    [ ! -d "/proc/$1" ] || grep -qs '^State:.Z' "/proc/$1/status"
}

# A killed launcher's last wish may still be with the keeper: wait for that one, too.
nothing_lives()
{
    ! "$LOCKSTEP" ps | grep -q '^fire *running'
}

i=0
while [ $i -lt 24 ]; do
    rm -f "$TAP"/pid.*
    "$LOCKSTEP" run --grace 200ms --no-watch --name fire -n 2 -- "$TAP/rank" >"$TAP/out" 2>"$TAP/err" </dev/null &
    launcher=$!
    random 3
    case $r in 0) victim=launcher ;; 1) victim=keeper ;; *) victim=rank ;; esac
    random 120
    sleep "$(printf '0.%03d' "$r")" # a random moment
    victim_pid $victim
    # Too early for this one (a keeper's number may be of the start before, and somebody else's by
    # now): it is the launcher's turn then.
    grep -qsxz "LOCKSTEP_STATE=$LOCKSTEP_STATE" "/proc/$pid/environ" || { victim=launcher pid=$launcher; }
    kill -9 "$pid" 2>/dev/null
    await gone "$launcher"
    tap_result $? "killed $victim after $r ms: the launcher ends"
    gone "$launcher" || kill "$launcher"
    wait "$launcher" 2>/dev/null
    await nothing_lives
    tap_result $? "and so does the rest"
    await nobody_sleeps
    tap_result $? "and nobody stays"
    nobody_sleeps || break
    i=$((i + 1))
done
attempts=$(sed -n 's/^ *"attempt": *\([0-9]*\),$/\1/p' "$LOCKSTEP_STATE/runs/fire/run.json")
ok "the attempts went on counting ($attempts)" test "$attempts" -gt 3
rings=$(sed -n 's/^ *"rings": *"\(.*\)",$/\1/p' "$LOCKSTEP_STATE/runs/fire/run.json")
ok "no rings stay" test ! -e "$rings"
done_testing
