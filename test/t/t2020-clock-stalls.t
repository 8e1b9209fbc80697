#!/bin/sh
# A program can lose the CPU between any two readings of the clock.  Agent, controller, sender and node daemon work
# on a machine where that happens all the time, and end when they get SIGTERM.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

site=$TAP/site user=$TAP/user STEPS=60
control='' pids=''
leave()
{
    for pid in $pids $control; do kill -9 "$pid" 2>/dev/null; done
    wait
    rm -rf "$TAP"
}
trap leave EXIT

stalled() # COMMAND...: with a clock that stalls
{
    exec env LD_PRELOAD="$BUILD/test/libclock-stall.so" CLOCK_STALL_US=150000 "$@"
}
ends() # NAME PID: on SIGTERM.  A process that sleeps for ever is still there after a minute
{
    kill -TERM "$2"
    await is_gone "$2"
    tap_result $? "$1 ends on SIGTERM"
}
is_gone() # PID: also while nobody has waited for it
{
    ! [ -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"
}
holds() # STATE RUN STEPS
{
    LOCKSTEP_STATE=$1 "$LOCKSTEP" why --json "$2" >"$TAP/out" 2>"$TAP/err"
    [ "$(number steps)" -ge "$3" ] 2>/dev/null
}

# The controller of a site.
LOCKSTEP_STATE=$site stalled "$LOCKSTEP" control --listen 127.0.0.1:0 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
tap_result $? "the controller of a site starts"
url=$(cat "$site/control.url")
export LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token"

# A run, whose launcher, agent and sender have that clock, too; the rank has not.  It stays until its steps have arrived:
# what ends wakes everybody who sleeps.
cat >"$TAP/rank" <<EOF
#!/bin/sh
unset LD_PRELOAD
"$LOCKSTEP" trainer --steps $STEPS --step-ms 50 --host-work-ms 0
until [ -e "$TAP/enough" ]; do sleep 0.1; done
EOF
chmod +x "$TAP/rank"
(LOCKSTEP_STATE=$user LOCKSTEP_CONTROL=$url stalled "$LOCKSTEP" run -q --name job -n 1 -- "$TAP/rank" >"$TAP/run.out" 2>&1) &
run=$!
pids="$pids $run"
await holds "$site" job $STEPS
tap_result $? "every step of a run reaches the controller of the site while it runs"
: >"$TAP/enough"
await is_gone $run && wait $run
is "the run ends with the status of its command" $? 0

# The controller of a run that has no site.
rm "$TAP/enough"
(LOCKSTEP_STATE=$user stalled "$LOCKSTEP" run -q --name own -n 1 -- "$TAP/rank" >"$TAP/run.out" 2>&1) &
run=$!
pids="$pids $run"
await holds "$user" own $STEPS
tap_result $? "a run's own controller has every step while it runs"
: >"$TAP/enough"
await is_gone $run && wait $run
is "that run ends with the status of its command, too" $? 0

# An agent and a sender that nobody but we will stop.
dir=$TAP/alone
mkdir -p -m 700 "$dir/rings" "$dir/run/spool"
echo '{"id": "alone", "ranks": 0, "nodes": [{"name": "n0"}], "rings": "'"$dir/rings"'"}' >"$dir/run/run.json"
(LOCKSTEP_CONTROL=$url stalled "$LOCKSTEP" agent --run-dir "$dir/run" --node n0 --tick 20ms 2>"$TAP/agent.err") &
agent=$!
(LOCKSTEP_CONTROL=$url stalled "$LOCKSTEP" send --run-dir "$dir/run" 2>"$TAP/send.err") &
send=$!
pids="$pids $agent $send"
(RANK=0 WORLD_SIZE=1 LOCKSTEP_DIR=$dir/rings exec "$LOCKSTEP" trainer --steps $STEPS --step-ms 50 --host-work-ms 0) \
    >"$TAP/train.out" 2>&1
await holds "$site" alone $STEPS
tap_result $? "a sender registers a run, and an agent sends its steps"
ends "an agent" $agent
ends "a sender" $send

# The node daemon, with the agent of a run that was started by nobody we know.
mkdir -m 1777 "$TAP/shm"
mkdir -p -m 700 "$TAP/shm/lockstep-$(id -u)/daily"
(LOCKSTEP_CONTROL=$url stalled "$LOCKSTEP" agent --every-run --every-root "$TAP/shm" --state "$TAP/agents" --node n0 \
    2>"$TAP/daemon.err") &
daemon=$!
pids="$pids $daemon"
(RANK=0 WORLD_SIZE=1 LOCKSTEP_DIR=$TAP/shm/lockstep-$(id -u)/daily exec "$LOCKSTEP" trainer --steps $STEPS --step-ms 50 \
    --host-work-ms 0) >"$TAP/train.out" 2>&1
await holds "$site" "daily.u$(id -u)" $STEPS
tap_result $? "the node daemon serves a run"
ends "the node daemon" $daemon
ends "the controller of a site" $control
control=''
done_testing
