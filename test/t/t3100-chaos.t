#!/bin/sh
# A whole run under fire: ranks, agents, controller, launcher and keeper are killed at random moments, and
# the run is started again and again until its training has ended.  Nobody stays, nothing is lost or
# doubled but what was counted, and the training learns what it would have learnt in peace.
#
# LOCKSTEP_CHAOS: how many kills (12).  SEED: which ones.  LOCKSTEP_KEEP: where to leave a copy of the run.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

KILLS=${LOCKSTEP_CHAOS:-12}
SEED=${SEED:-$(date +%s)}
echo "# SEED=$SEED LOCKSTEP_CHAOS=$KILLS"
dir=$LOCKSTEP_STATE/runs/fire stop=$TAP/stop

random() # LIMIT: sets $r
{
    SEED=$(((SEED * 1103515245 + 12345) % 2147483648))
    r=$((SEED / 65536 % $1))
}

# Everybody of this run, and nobody else, has our state directory in its environment; so do the small
# tools of this test, but they are other programs.
program=$(readlink -f "$LOCKSTEP")
members()
{
    for environ in $(grep -lsxz "LOCKSTEP_STATE=$LOCKSTEP_STATE" /proc/[0-9]*/environ); do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        case $(readlink "/proc/$pid/exe") in "$program" | "$program-lab") echo "$pid" ;; esac
    done
}

members_of() # WORDS: those whose command line has them
{
    for member in $(members); do
        case $(cat "/proc/$member/cmdline" 2>/dev/null | tr "\0" " ") in
        *"lockstep $1 "*) echo "$member" ;;
        esac
    done
}

nobody_is_left()
{
    [ -z "$(members)" ]
}

# Also when something here fails, nothing of this test stays.
trap 'kill -9 $(members) 2>/dev/null; rm -rf "$TAP"' EXIT

run() # ARGUMENT...
{
    timeout -k 5 100 "$LOCKSTEP" run -q -n 4 --nodes 2 --grace 1s "$@"
}

start()
{
    "$LOCKSTEP" run -q -n 4 --nodes 2 --max-restarts 50 --backoff 20ms --grace 1s --name fire -- \
        "$LOCKSTEP" trainer --steps 100000 --step-ms 40 --host-work-ms 0.5 --checkpoint-dir "$TAP/saved" \
        --checkpoint-every 10 --stop-file "$stop" >>"$TAP/run.out" 2>>"$TAP/run.err" </dev/null &
    launcher=$!
    starts=$((starts + 1))
}

launcher_lives()
{
    [ -d "/proc/$launcher" ] && ! grep -qs '^State:.Z' "/proc/$launcher/status"
}

launcher_is_gone()
{
    ! launcher_lives
}

member() # NAME: a number in run.json
{
    sed -n "s/^ *\"$1\": *\([0-9]*\),*$/\1/p" "$dir/run.json" 2>/dev/null
}

pick() # PID...: sets $victim_pid to one of them, empty when there is none
{
    victim_pid=
    [ $# -gt 0 ] || return
    random $#
    shift "$r"
    victim_pid=$1
}

# Chance, but for the first four: an agent's ranks must not be forgotten when whoever would start it again
# dies, too.
choose() # sets $victim and $victim_pid
{
    random 6
    case $killed in 0 | 2) r=2 ;; 1) r=4 ;; 3) r=5 ;; esac
    case $r in
    0 | 1) victim=rank && pick $(members_of trainer) ;;
    2) victim=agent && pick $(members_of agent) ;;
    3) victim=controller && pick $(members_of control) ;;
    4) victim=launcher victim_pid=$launcher ;;
    *) victim=keeper victim_pid=$(member keeper) ;;
    esac
    # Not there now (a keeper's number may be of the start before, and somebody else's by now).
    grep -qsxz "LOCKSTEP_STATE=$LOCKSTEP_STATE" "/proc/${victim_pid:-none}/environ" || victim_pid=
}

ended_well()
{
    grep -qs '^ *"exit": *0,*$' "$dir/run.json" && [ -z "$(members)" ]
}

# After the launcher: whoever is left goes by himself, and the next start goes on.
again()
{
    await nobody_is_left
    left=$?
    if [ $left != 0 ]; then
        tap_result 1 "nobody is left after $killed kills, the last of $victim"
        ps -o pid,ppid,stat,etime,args -p "$(members | paste -sd, -)" >&2
        exit 1
    fi
    wait "$launcher"
    ended_well || start
}

killed=0 starts=0 ranks=0 agents=0 controllers=0 launchers=0 keepers=0
start
while [ $killed -lt $((KILLS + KILLS / 6)) ] && ! ended_well; do
    # Some more are for the end of the training, and for whoever is writing it down.
    [ $killed -lt "$KILLS" ] || [ -e "$stop" ] || touch "$stop"
    random 900
    [ ! -e "$stop" ] || random 300
    case $killed in 0 | 2) r=$((r / 2 + 500)) ;; 1 | 3) r=120 ;; esac
    moment=$r
    sleep "$(printf '0.%03d' "$r")" # a random moment
    choose
    if [ -n "$victim_pid" ] && kill -9 "$victim_pid" 2>/dev/null; then
        killed=$((killed + 1))
        eval "${victim}s=\$((${victim}s + 1))"
        echo "# $killed: $victim $victim_pid after $moment ms"
        case $victim in launcher | keeper) await launcher_is_gone ;; esac
    fi
    launcher_lives || again
done
touch "$stop"
while await launcher_is_gone && ! ended_well; do
    again
done
ok "the training ends" ended_well
wait "$launcher"
echo "# $killed kills: $ranks ranks, $agents agents, $controllers controllers, $launchers launchers," \
    "$keepers keepers; $starts starts, attempt $(member attempt)"
ok "as many were killed as should be" test "$killed" -ge "$KILLS"
ok "nobody is left" nobody_is_left
ok "no rings stay" test ! -e "$(sed -n 's/^ *"rings": *"\(.*\)",$/\1/p' "$dir/run.json")"
[ -z "${LOCKSTEP_KEEP:-}" ] || cp -r "$dir" "$TAP/run.err" "$LOCKSTEP_KEEP"

steps=$(sed -n 's/.*done after \([0-9]*\) steps.*/\1/p' "$dir/out/rank-0.log" | tail -n 1)
ok "every step is told once or counted as lost, and every frame is in the log once ($steps steps)" \
    "$BUILD/test/log-check" "$dir" "$steps"
sed 's/^/# /' "$TAP/out"
ok "the log gives the same verdicts again" "$LOCKSTEP" why --replay "$dir"
has "byte for byte" 'byte-equal$' "$TAP/out"
"$LOCKSTEP" ps >"$TAP/out" 2>"$TAP/err"
has "ps says that it has ended" '^fire +ended' "$TAP/out"

run --no-watch --name peace -- "$LOCKSTEP" trainer --steps "$steps" --step-ms 2 --host-work-ms 0 \
    >"$TAP/out" 2>"$TAP/err"
fire=$(grep -h -o 'done after.*' "$dir/out/rank-0.log" | tail -n 1)
echo "# $fire"
ok "the training learnt what it learns in peace" test "$fire" = \
    "$(grep -h -o 'done after.*' "$LOCKSTEP_STATE/runs/peace/out/rank-0.log")"
done_testing
