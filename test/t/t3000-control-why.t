#!/bin/sh
# A real run whose controller is killed again and again: each frame is in the log once, the verdicts
# come out again byte for byte, and why explains it, also without its log.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

STEPS=50 RANKS=3
dir=$TAP/run

controller() # the pid of the run's controller
{
    grep -lsz -- "--run-dir" /proc/[0-9]*/cmdline | while read -r file; do
        # Arguments are "lockstep control --run-dir DIR", each ended by a NUL.
        case $(cat "$file" 2>/dev/null | tr '\0' ' ') in
        *" control --run-dir $dir "*) echo "$file" | tr -cd 0-9 ;;
        esac
    done
}

alive()
{
    kill -0 $run 2>/dev/null
}

writes_again() # SIZE: the log grows, or the run is over
{
    [ "$(stat -c %s "$dir/log.lsf")" -gt "$1" ] || ! alive
}

# The ranks end when it has been killed often enough, however fast they trained.
timeout -k 5 90 "$LOCKSTEP" run -q -n $RANKS --dir "$dir" -- \
    sh -c '"$0" trainer --steps "$1" && until [ -e "$2" ]; do sleep 0.1; done' "$LOCKSTEP" $STEPS "$TAP/killed" \
    >"$TAP/run.out" 2>"$TAP/run.err" &
run=$!
await test -s "$dir/log.lsf"
kills=0
while alive && [ $kills -lt 4 ]; do
    pid=$(controller)
    if [ -n "$pid" ] && kill -9 $pid 2>/dev/null; then
        kills=$((kills + 1))
        await writes_again "$(stat -c %s "$dir/log.lsf")"
    fi
done
: >"$TAP/killed"
wait $run
is "the job does not notice" $? 0
is "the controller was killed four times" $kills 4

"$LOCKSTEP" why --json "$dir" >"$TAP/out" 2>"$TAP/err"
is "every step of every rank is in the log once" "$(number steps)" $((STEPS * RANKS))
is "no frame is lost" "$(number lost_frames)" 0
is "nothing is damaged" "$(number damaged_bytes)" 0
has "the run has ended well" '"status": 0,' "$TAP/out"
ok "the log gives the same verdicts again" "$LOCKSTEP" why --replay "$dir"
has "and says so in one line" '^[0-9]+ verdicts and ledgers from [0-9]+ facts and [0-9]+ ticks: byte-equal$' \
    "$TAP/out"
exits 2 "a second controller needs a directory" "$LOCKSTEP" control --run-dir "$TAP/nowhere"

# The same run without its log, and with half of it.
cp -r "$dir" "$TAP/bare"
rm "$TAP/bare/log.lsf"
"$LOCKSTEP" why --json "$TAP/bare" >"$TAP/out" 2>"$TAP/err"
has "without a log the spools are judged" '"source": "spools",' "$TAP/out"
is "with every step" "$(number steps)" $((STEPS * RANKS))
size=$(stat -c %s "$dir/log.lsf")
head -c $((size / 2)) "$dir/log.lsf" >"$TAP/bare/log.lsf"
"$LOCKSTEP" why "$TAP/bare" --json >"$TAP/out" 2>"$TAP/err"
has "half a log is completed" '"source": "log and spools",' "$TAP/out"
is "with every step, too" "$(number steps)" $((STEPS * RANKS))
"$LOCKSTEP" control --run-dir "$TAP/bare" --tick 1ms >"$TAP/out" 2>"$TAP/err" &
control=$!
taken_up() { "$LOCKSTEP" why --json "$TAP/bare" | grep -q '"source": "log",'; }
await taken_up
kill -TERM $control
wait $control
is "a controller takes it up where it ends" $? 0
ok "and closes the books" "$LOCKSTEP" why --replay "$TAP/bare"
"$LOCKSTEP" why --json "$TAP/bare" >"$TAP/out" 2>"$TAP/err"
is "with every step once" "$(number steps)" $((STEPS * RANKS))
has "so the log is told" '"source": "log",' "$TAP/out"

mkdir "$TAP/empty"
exits 2 "a directory that is no run is refused" "$LOCKSTEP" why "$TAP/empty"
has "in one line" '^lockstep why: .*empty: not the directory of a run: it has none of run.json, log.lsf and spool$' "$TAP/err"
exits 2 "two runs are too many" "$LOCKSTEP" why a b
exits 2 "follow and replay are two things" "$LOCKSTEP" why --follow --replay "$dir"
exits 2 "no run yet is said" "$LOCKSTEP" why
mkdir -p "$TAP/empty/spool"
exits 3 "a run without a step cannot be told" "$LOCKSTEP" why "$TAP/empty"
has "and says so" 'cannot tell: no step was observed' "$TAP/out"
done_testing
