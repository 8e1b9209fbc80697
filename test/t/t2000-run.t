#!/bin/sh
# lockstep run: what ranks are told, what is shown of them, how they end, and that nobody stays.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# What sleeps in this test sleeps this long: a name by which to find it.
MARK=9$$7

run() # ARGUMENT...
{
    timeout -k 5 60 "$LOCKSTEP" run --grace 500ms --backoff 50ms --no-watch "$@"
}

check() # NAME COMMAND...
{
    check_name=$1
    shift
    await "$@"
    tap_result $? "$check_name"
}

sleepers()
{
    grep -lszE "(^|[^0-9])[9]${MARK#9}(\$|[^0-9])" /proc/[0-9]*/cmdline
}

nobody_sleeps()
{
    [ -z "$(sleepers)" ]
}

# Also when something here fails, nothing of this test stays.
trap 'kill -9 $(sleepers | tr -dc "0-9\n") 2>/dev/null; rm -rf "$TAP"' EXIT

gone() # PID
{
    [ ! -d "/proc/$1" ] || grep -qs '^State:.Z' "/proc/$1/status"
}

member() # RUN NAME: a number in its run.json
{
    sed -n "s/^ *\"$2\": *\([0-9]*\),*$/\1/p" "$LOCKSTEP_STATE/runs/$1/run.json"
}

rings_of() # RUN
{
    sed -n 's/^ *"rings": *"\(.*\)",$/\1/p' "$LOCKSTEP_STATE/runs/$1/run.json"
}

# A rank that leaves all kinds of processes behind and then does as it is told.
cat >"$TAP/litter" <<END
#!/bin/sh
sleep $MARK &
setsid sh -c 'trap "" TERM; sleep $MARK; :' &
(setsid sh -c '(trap "" TERM; sleep $MARK; :) & sleep $MARK; :' &)
(trap "" TERM; (sleep $MARK; :) & )
while [ "\$(grep -lsxz "[9]${MARK#9}" /proc/[0-9]*/cmdline | wc -l)" -lt \$((5 * \${WORLD_SIZE-1})) ]; do
    sleep 0.01
done
: >"$TAP/littered.\$RANK"
eval "\$1"
END
chmod +x "$TAP/litter"

# ---- what ranks are told ----
cat >"$TAP/env" <<'END'
#!/bin/sh
env | grep -E '^(RANK|LOCAL_|WORLD_SIZE|GROUP_|ROLE_|MASTER_ADDR|TORCHELASTIC_|OMP_|LOCKSTEP_(RUN|NODE|RESTART))' |
    sort >"$1.$RANK"
stat -c %a "$LOCKSTEP_DIR" >"$1.mode.$RANK"
END
chmod +x "$TAP/env"
unset OMP_NUM_THREADS
ok "four ranks on two nodes end well" run --name env -n 4 --nodes 2 --max-restarts 7 -- "$TAP/env" "$TAP/seen"
cat >"$TAP/expected" <<END
GROUP_RANK=1
GROUP_WORLD_SIZE=2
LOCAL_RANK=0
LOCAL_WORLD_SIZE=2
LOCKSTEP_NODE=n1
LOCKSTEP_RESTART=0
LOCKSTEP_RUN=env
MASTER_ADDR=127.0.0.1
OMP_NUM_THREADS=1
RANK=2
ROLE_NAME=default
ROLE_RANK=2
ROLE_WORLD_SIZE=4
TORCHELASTIC_MAX_RESTARTS=7
TORCHELASTIC_RESTART_COUNT=0
TORCHELASTIC_RUN_ID=env
WORLD_SIZE=4
END
ok "a rank is told its place" diff "$TAP/expected" "$TAP/seen.2"
is "only its user can enter the ring directory" "$(cat "$TAP/seen.mode.0")" 700
ok "the ring directory is gone at the end" test ! -e "$(rings_of env)"
ok "the run directory is the user's alone" test "$(stat -c %a "$LOCKSTEP_STATE/runs/env")" = 700
ok "the launcher left its facts" test -s "$LOCKSTEP_STATE/runs/env/spool/launcher.lsf"

# ---- what is shown ----
ok "prints" run --name show -n 2 -- sh -c 'echo "out of $RANK"; echo "err of $RANK" >&2; printf "no newline"'
has "a line of stdout has its rank" '^\[rank 1\] out of 1$' "$TAP/out"
has "a line of stderr has its rank" '^\[rank 0\] err of 0$' "$TAP/err"
has "an unfinished line is shown" '^\[rank 0\] no newline$' "$TAP/out"
has "a rank's output is kept" '^out of 1$' "$LOCKSTEP_STATE/runs/show/out/rank-1.log"
lacks "and only its own" 'out of 0' "$LOCKSTEP_STATE/runs/show/out/rank-1.log"
ok "quiet" run --name hush -q -n 1 -- echo hello
ok "shows nothing" test ! -s "$TAP/out"
has "but keeps it" '^hello$' "$LOCKSTEP_STATE/runs/hush/out/rank-0.log"
ok "a very long line" run --name long -n 1 -- sh -c 'head -c 100000 /dev/zero | tr "\0" x; echo'
is "is shown whole, in pieces" "$(sed 's/^\[rank 0\] //' "$TAP/out" | tr -d '\n' | wc -c)" 100000

# ---- how it ends ----
exits 3 "exits as the rank that failed" run --name three -n 3 -- sh -c '[ $RANK = 1 ] && exit 3; exec sleep 30'
has "and says which" '^lockstep run: rank 1 exited with 3$' "$TAP/err"
exits 137 "128+n for a signal" run -n 2 -- sh -c '[ $RANK = 1 ] && kill -9 $$; exec sleep 30'
has "and says which signal" 'rank 1 killed by signal 9 \(SIGKILL\)' "$TAP/err"
# It ends only when the one that noticed has ended, and the verdict comes after both.
cat >"$TAP/echo" <<'END'
#!/bin/bash
if [ "$RANK" = 0 ]; then
    until [ -e "$1" ]; do sleep 0.05; done
    echo "lost rank 1: Connection reset by peer" >&2
    exit 1
fi
trap 'kill -SEGV $$' TERM
: >"$1"
while :; do sleep 0.05; done
END
chmod +x "$TAP/echo"
exits 139 "an echo that came first is not it" timeout -k 5 60 "$LOCKSTEP" run --grace 20s -n 2 -- "$TAP/echo" "$TAP/ready"
has "which is said" 'rank 1 killed by signal 11 \(SIGSEGV\) and caused the other failures' "$TAP/err"
runs=$(ls -d "$LOCKSTEP_STATE"/runs/* 2>/dev/null | wc -l)
exits 127 "a command that is not there" run -n 1 -- "$TAP/nothing"
has "is named" "nothing: No such file" "$TAP/err"
is "and leaves no run" "$(ls -d "$LOCKSTEP_STATE"/runs/* 2>/dev/null | wc -l)" "$runs"
exits 127 "nor does one that is not in PATH" "$LOCKSTEP" run --name gone -n 1 -- no-such-program
has "which is said" "^lockstep run: no-such-program: No such file or directory; it is not in PATH$" "$TAP/err"
is "by no other line" "$(wc -l <"$TAP/err")" 1
exits 1 "and has no directory" test -e "$LOCKSTEP_STATE/runs/gone"
exits 126 "a command that is no program" run -n 1 -- "$TAP"
exits 7 "a stopped rank" run --grace 20s -n 2 -- sh -c 'if [ $RANK = 0 ]; then
    trap "echo woke; exit 0" TERM; : >"$1"; kill -STOP $$; sleep 30; else
    while [ ! -e "$1" ]; do sleep 0.01; done; exit 7; fi' sh "$TAP/stopped"
has "is woken to hear that it shall end" '^\[rank 0\] woke$' "$TAP/out"
ok "some may end before others" run -n 3 -- sh -c 'sleep 0.$RANK' # each as long as its number
exits 2 "no command is bad usage" run -n 2
exits 2 "more nodes than ranks is bad usage" run -n 2 --nodes 3 -- true
exits 2 "no ranks at all is bad usage" run -n 0 -- touch "$TAP/begun"
has "which is said" '-n 0: expected a number of ranks from 1 to 65536$' "$TAP/err"
exits 2 "so are too many" run -n 4294967295 -- touch "$TAP/begun"
has "with the range" '-n 4294967295: expected a number of ranks from 1 to 65536$' "$TAP/err"
exits 2 "and what is no number" run -n abc -- touch "$TAP/begun"
has "with the range" '-n abc: expected a number of ranks from 1 to 65536$' "$TAP/err"
exits 2 "a controller that is no URL is bad usage" "$LOCKSTEP" run --control foo -- touch "$TAP/begun"
is "which is said in one line" "$(cat "$TAP/err")" \
    "lockstep run: --control: 'foo': expected http://HOST:PORT or https://HOST:PORT"
ok "and nothing was started" test ! -e "$TAP/begun"
LOCKSTEP_CONTROL=foo ok "one in the environment is ignored" run -- touch "$TAP/begun"
has "which is said, too" "LOCKSTEP_CONTROL: 'foo': expected http://HOST:PORT or https://HOST:PORT; LOCKSTEP_CONTROL is ignored$" "$TAP/err"
ok "and the command was started" test -e "$TAP/begun"
exits 2 "a name that is none is bad usage" run --name a/b -- true

# ---- restarts ----
ok "is started again until it ends well" run --name again -n 2 --max-restarts 3 -- \
    sh -c 'echo "try $LOCKSTEP_RESTART"; [ $LOCKSTEP_RESTART = 2 ] && exit; [ $RANK = 0 ] && exit 5; exec sleep 30'
is "three attempts, each told its number" "$(grep -c '^\[rank 0\] try [012]$' "$TAP/out")" 3
has "the file tells attempts apart" '^---- lockstep run: attempt 2 ----$' "$LOCKSTEP_STATE/runs/again/out/rank-1.log"
is "run.json knows the restarts" "$(member again restarts)" 2
exits 6 "gives up after the last restart" run -n 1 --max-restarts 2 -- sh -c 'echo x >>"$1"; exit 6' sh "$TAP/tries"
is "having tried three times" "$(wc -l <"$TAP/tries")" 3

# ---- nobody stays ----
ok "a rank that litters and ends well" run -n 1 -- "$TAP/litter" 'exit 0'
ok "leaves nobody" nobody_sleeps
exits 4 "a rank that litters and fails" run -n 2 -- "$TAP/litter" '[ $RANK = 1 ] && exit 4; sleep 30'
ok "leaves nobody" nobody_sleeps

start() # NAME COMMAND...: in the background; its pid is $launcher
{
    start_name=$1
    shift
    rm -f "$TAP"/littered.*
    env --default-signal=INT ${start_hup---default-signal=HUP} "$LOCKSTEP" run --grace 500ms --no-watch --name "$start_name" -n 2 -- "$@" \
        >"$TAP/out" 2>"$TAP/err" </dev/null &
    launcher=$!
    check "$start_name: ranks are there" test -e "$TAP/littered.0" -a -e "$TAP/littered.1"
    keeper=$(member "$start_name" keeper)
}

first_sleeps='[ "$LOCKSTEP_RESTART" = 0 ] || { echo "attempt $LOCKSTEP_RESTART"; exit 0; }'
start launcher-killed "$TAP/litter" "$first_sleeps; exec sleep $MARK"
"$LOCKSTEP" ps >"$TAP/out"
has "ps shows a run that runs" '^launcher-killed +running +2 ' "$TAP/out"
exits 2 "a run that runs is not started twice" run --name launcher-killed -n 1 -- true
kill -9 "$launcher"
check "kill -9 of the launcher leaves nobody" nobody_sleeps
check "not even the keeper" gone "$keeper"
ok "nor rings" test ! -e "$(rings_of launcher-killed)"
"$LOCKSTEP" ps >"$TAP/out"
has "ps shows that it crashed" '^launcher-killed +crashed +2 ' "$TAP/out"
ok "it goes on where it was" run --name launcher-killed -n 2 -- "$TAP/litter" "$first_sleeps; exec sleep $MARK"
has "with the next attempt" 'attempt 1' "$TAP/out"
exits 2 "a run that has ended well does not go on" run --name launcher-killed -n 2 -- "$TAP/litter" \
    "$first_sleeps; exec sleep $MARK"
has "which is said" 'run launcher-killed has ended successfully' "$TAP/err"

unset SLURM_RESTART_COUNT
exits 1 "a run that failed" run --name other -n 2 -- sh -c 'exit 1'
exits 2 "does not go on with another command" run --name other -n 2 -- touch "$TAP/mixed"
has "which is said" "run other has another command, .* its command: sh -c 'exit 1'\$" "$TAP/err"
exits 2 "nor with other ranks" run --name other -n 1 -- sh -c 'exit 1'
has "which is said" 'run other has 2 ranks, not 1' "$TAP/err"
ok "nothing was started" test ! -e "$TAP/mixed"
exits 1 "but as it was" run --name other -n 2 -- sh -c 'exit 1'
has "with the next attempt" 'run other continues with attempt 1' "$TAP/err"
SLURM_RESTART_COUNT=1 ok "and as it likes when Slurm has requeued it" run --name other -n 1 -- true
has "with the attempt after that" 'run other continues with attempt 2' "$TAP/err"

start keeper-killed "$TAP/litter" "exec sleep $MARK"
kill -9 "$keeper"
wait "$launcher"
is "kill -9 of the keeper ends the run" $? 137
has "and it says so" 'the keeper process was killed by signal 9' "$TAP/err"
check "and leaves nobody" nobody_sleeps

start both-killed sh -c ": >'$TAP/littered.'\$RANK; exec sleep $MARK"
kill -9 "$launcher" "$keeper"
check "kill -9 of both ends the ranks" nobody_sleeps
rm -rf "$(rings_of both-killed)" # what both left; nobody else can

start interrupted "$TAP/litter" "exec sleep $MARK"
kill -INT "$launcher"
wait "$launcher"
is "SIGINT ends it with 130" $? 130
ok "and leaves nobody" nobody_sleeps
start terminated "$TAP/litter" "trap 'echo told; exit 0' TERM; while :; do sleep 0.05; done"
kill -TERM "$launcher"
wait "$launcher"
is "SIGTERM ends it with 143" $? 143
has "the ranks were told" '^\[rank 1\] told$' "$TAP/out"
for name in INT HUP; do
    number=2
    [ $name = INT ] || number=1
    start "passed-$name" sh -c "trap 'echo told INT; exit 0' INT; trap 'echo told HUP; exit 0' HUP
        trap 'echo told TERM; exit 0' TERM; : >'$TAP/littered.'\$RANK; while :; do sleep 0.05; done"
    kill -$name "$launcher"
    wait "$launcher"
    is "SIG$name ends it with 128 and its number" $? $((128 + number))
    has "and is passed on as it is" "^\[rank 1\] told $name$" "$TAP/out"
    lacks "and as nothing else" 'told TERM' "$TAP/out"
done
start_hup=--ignore-signal=HUP
start nohup sh -c ": >'$TAP/littered.'\$RANK; until [ -e '$TAP/lasts' ]; do sleep 0.05; done; echo lasted"
unset start_hup
kill -HUP "$launcher"
: >"$TAP/lasts"
wait "$launcher"
is "under nohup SIGHUP does not end it" $? 0
has "nor its ranks" '^\[rank 1\] lasted$' "$TAP/out"
# What a shell starts in the background ignores SIGINT.
start background sh -c "(trap '' INT; exec sh -c 'trap \"echo told TERM; exit 0\" TERM
    : >\"$TAP/littered.\$RANK\"; while :; do sleep 0.05; done') & wait"
kill -INT "$launcher"
wait "$launcher"
is "a process that ignores SIGINT" $? 130
has "gets SIGTERM" '^\[rank 0\] told TERM$' "$TAP/out"
start outlives "$TAP/litter" "trap : INT TERM; while :; do sleep $MARK; done"
kill -INT "$launcher"
wait "$launcher"
is "one that goes on regardless is killed after the grace" $? 130
ok "and leaves nobody" nobody_sleeps

rm -f "$TAP"/littered.*
env --default-signal=INT "$LOCKSTEP" run --grace 30s --no-watch --name twice -n 2 -- \
    sh -c "trap '' INT TERM; : >'$TAP/littered.'\$RANK; sleep $MARK; :" >"$TAP/out" 2>"$TAP/err" </dev/null &
launcher=$!
check "ranks that heed no signal" test -e "$TAP/littered.0" -a -e "$TAP/littered.1"
kill -INT "$launcher"
check "are told" grep -q 'SIGINT: ending the ranks' "$TAP/err"
kill -INT "$launcher"
check "a second SIGINT kills them at once" gone "$launcher"
ok "all of them" nobody_sleeps

# ---- what ranks are born with ----
env --ignore-signal=TERM --ignore-signal=CHLD --block-signal=USR1 --block-signal=TERM \
    timeout -k 5 60 "$LOCKSTEP" run --no-watch --name born -n 1 -- cat /proc/self/status >"$TAP/out" 2>&1
is "born of one who ignores SIGCHLD it still sees its ranks end" $? 0
has "ranks ignore nothing" '^\[rank 0\] SigIgn:.0000000000000000$' "$TAP/out"
has "ranks block nothing" '^\[rank 0\] SigBlk:.0000000000000000$' "$TAP/out"
is "ranks have stdin, stdout and stderr, and no file of ours or of our parents" \
    "$(run --name files -n 1 -- sh -c 'ls -x /proc/$$/fd' 7</dev/null 2>/dev/null | tr -s ' ')" '[rank 0] 0 1 2'
is "also when we have none" \
    "$( (run --name nofiles -n 1 -- sh -c 'ls -x /proc/$$/fd' 0<&- 1>&- 2>&-)
        tr -s ' ' <"$LOCKSTEP_STATE/runs/nofiles/out/rank-0.log")" '0 1 2'

run --name guest -n 1 -- sh -c 'echo mine >"$LOCKSTEP_DIR/mine"; echo "$LOCKSTEP_DIR"' 2>"$TAP/err" >"$TAP/out"
rings=$(sed -n 's/^\[rank 0\] //p' "$TAP/out")
ok "a file among the rings that is no ring is not ours to remove" grep -qx mine "$rings/mine"
rm -r "$rings"

# ---- readers of our output ----
ok "stdout is closed" sh -c '"$@" >&-' sh "$LOCKSTEP" run --no-watch --name closed -n 1 -- seq 1000
is "and all is kept" "$(wc -l <"$LOCKSTEP_STATE/runs/closed/out/rank-0.log")" 1000
run --name deaf -n 1 -- sh -c 'seq 300000; echo done >"$1"' sh "$TAP/deaf-done" 2>"$TAP/err" | true
check "a reader that goes away stops nobody" test -s "$TAP/deaf-done"
is "and all is kept" "$(wc -l <"$LOCKSTEP_STATE/runs/deaf/out/rank-0.log")" 300000

mkfifo "$TAP/stuck"
run --name stuck -n 1 -- sh -c 'seq 2000000; echo done >"$1"' sh "$TAP/stuck-done" >"$TAP/stuck" 2>"$TAP/err" &
launcher=$!
exec 9<"$TAP/stuck"
check "a reader that does not read stops nobody" test -s "$TAP/stuck-done"
wait "$launcher"
is "the run ends without it" $? 0
exec 9<&-
is "and all is kept" "$(wc -l <"$LOCKSTEP_STATE/runs/stuck/out/rank-0.log")" 2000000

run --name flood -n 1 -- sh -c 'yes "$(printf %099d 0)" | head -n 500000' 2>"$TAP/err" | cat >"$TAP/flood"
is "50 MB are kept" "$(wc -c <"$LOCKSTEP_STATE/runs/flood/out/rank-0.log")" 50000000
is "and every line is shown or counted" \
    "$(awk '/^\[rank 0\] 0*$/ { n++ } /^lockstep run: [0-9]+ lines/ { n += $3 } END { print n }' "$TAP/flood")" 500000
rm -f "$TAP/flood" "$LOCKSTEP_STATE"/runs/*/out/rank-0.log

# ---- a command that is no rank ----
RANK=17 ok "without -n" run --name one -- sh -c 'echo "RANK $RANK WORLD ${WORLD_SIZE-unset} RUN $LOCKSTEP_RUN"; exit 0'
has "nothing is ranked and nothing prefixed" '^RANK 17 WORLD unset RUN one$' "$TAP/out"
has "its output is kept" '^RANK 17' "$LOCKSTEP_STATE/runs/one/out/command.log"
exits 9 "its exit status is ours" run -- sh -c 'exit 9'

# ---- others ----
"$LOCKSTEP" ps --json >"$TAP/out"
has "ps knows how a run ended" '"state": *"ended"' "$TAP/out"
plugin() { NCCL_PROFILER_PLUGIN=$1 "$LOCKSTEP" run --dry-run -n 1 -- true; }
ok "a dry run of who has an NCCL plugin" plugin /opt/mine.so
has "calls it behind ours" ' NCCL_PROFILER_PLUGIN=[^ ]*/liblockstep.so[^ ]* LOCKSTEP_NCCL_NEXT=/opt/mine.so ' "$TAP/out"
ok "of who wants none" plugin none
lacks "leaves that alone" 'NCCL_PROFILER_PLUGIN|LOCKSTEP_NCCL_NEXT' "$TAP/out"
ok "of who has ours" plugin lockstep
lacks "calls it once" 'LOCKSTEP_NCCL_NEXT' "$TAP/out"
ok "a dry run" "$LOCKSTEP" run --dry-run --name dry -n 2 -- echo 'a b'
has "says what it would start" "^rank 1: .*RANK=1 .* echo 'a b'$" "$TAP/out"
ok "and starts nothing" test ! -e "$LOCKSTEP_STATE/runs/dry"
ok "a directory of one's own" run --dir "$TAP/own" -n 1 -- true
ok "is the run's" test -s "$TAP/own/run.json"

# ---- agent and controller ----
agent_pid() # RUN
{
    for agent_dir in $(grep -lsxz "$LOCKSTEP_STATE/runs/$1" /proc/[0-9]*/cmdline); do
        grep -qsxz agent "$agent_dir" && echo "$agent_dir" | tr -dc '0-9\n'
    done | head -n 1
}

another_agent() # RUN PID
{
    [ -n "$(agent_pid "$1")" ] && [ "$(agent_pid "$1")" != "$2" ]
}

if "$LOCKSTEP" help agent >/dev/null 2>&1 && "$LOCKSTEP" help control >/dev/null 2>&1; then
    timeout -k 5 60 "$LOCKSTEP" run --name watched -n 1 -- \
        sh -c 'while [ ! -e "$1" ]; do sleep 0.05; done' sh "$TAP/enough" >"$TAP/out" 2>"$TAP/err" &
    launcher=$!
    check "an agent is there" another_agent watched none
    first=$(agent_pid watched)
    kill -9 "$first"
    check "an agent that was killed is started again" another_agent watched "$first"
    : >"$TAP/enough"
    wait "$launcher"
    is "and no rank noticed" $? 0
    has "but the launcher said so" 'agent-.* killed by signal 9' "$TAP/err"
    check "agent and controller end with the run" test -z "$(agent_pid watched)"
    ok "a very short run is watched, too" "$LOCKSTEP" run --name short -n 2 -- true
    lacks "and agent and controller end well" 'at the end' "$TAP/err"
    rm -f "$TAP/enough"
    "$LOCKSTEP" run --name widow --grace 500ms -n 1 -- sleep $MARK >"$TAP/out" 2>"$TAP/err" &
    launcher=$!
    check "an agent and a rank are there" another_agent widow none
    keeper=$(member widow keeper)
    kill -9 "$launcher"
    check "kill -9 of the launcher ends agent and controller, too" gone "$keeper"
    is "all of them" "$(agent_pid widow)" ""
    ok "and leaves no rings" test ! -e "$(rings_of widow)"
else
    skip "an agent that was killed is started again" "no agent or controller in this build"
fi
done_testing
