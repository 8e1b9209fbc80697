# node.sh - a site's controller, and the daemon of a node as root; beside guard.sh.
#
#   . "$SOURCE/test/guard/node.sh"
#   daemon_start
#   train $ada work 40
#   await has_steps work.u$ada 10
#
# Rings are in $root, the daemon's state in $state, the controller's in $site.
# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/guard.sh"

site=$TAP/site root=$TAP/shm state=$TAP/agents
hostile=$BUILD/test/guard/hostile
control='' daemon='' pids='' url=''
leave()
{
    for pid in $daemon $control $pids; do kill -9 "$pid" 2>/dev/null; done
    wait 2>/dev/null
    for user in $ada $bob; do # whatever is left of them is theirs alone
        for pid in $(ps -eo pid=,uid= | awk -v u="$user" '$2 == u { print $1 }'); do kill -9 "$pid" 2>/dev/null; done
    done
    rm -rf "$TAP"
}
trap leave EXIT
mkdir -m 1777 "$root"

control_start() # [OPTION...]
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "127.0.0.1:${port:-0}" --close-after 3s "$@" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
    url=$(cat "$site/control.url")
    port=${url##*:}
}

daemon_start() # [OPTION...]
{
    LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" agent --every-run --every-root "$root" \
        --state "$state" --node n1 "$@" 2>>"$TAP/daemon.err" &
    daemon=$!
}

daemon_stop() # true: it ended in time
{
    kill -TERM "$daemon"
    await ended "$daemon" && wait "$daemon"
}
ended() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.*Z' "/proc/$1/status"; }

run_make() # UID RUN: the directory of its rings
{
    as "$1" mkdir -p -m 700 "$root/lockstep-$1" "$root/lockstep-$1/$2"
}

train() # UID RUN STEPS
{
    run_make "$1" "$2"
    as "$1" env RANK=0 WORLD_SIZE=1 LOCKSTEP_DIR="$root/lockstep-$1/$2" "$LOCKSTEP" trainer --steps "$3" --step-ms 50 \
        --host-work-ms 0 >"$TAP/train-$1-$2.out" 2>&1 &
    trainer=$!
    pids="$pids $trainer"
}

has_steps() # RUN STEPS
{
    LOCKSTEP_STATE=$site "$LOCKSTEP" why --json "$1" >"$TAP/out" 2>"$TAP/err"
    [ "$(number steps)" -ge "$2" ] 2>/dev/null
}

agents() # UID: the processes that the daemon has for that user
{
    ps -eo pid=,ppid=,uid= | awk -v p="$daemon" -v u="$1" '$2 == p && $3 == u { print $1 }'
}
has_agent() { [ -n "$(agents "$1")" ]; }
