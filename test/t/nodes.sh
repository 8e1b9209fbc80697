# nodes.sh - several launchers of one run, each as a node of its own on this machine; use after tap.sh and site.sh.
#
#   nodes_begin                            # a controller, which all launchers use
#   launch RUN NODE NODES RANKS STEPS      # a launcher in the background
#   hook RUN <<END                         # shell code before each rank: faults of some nodes or attempts
#   await ended RUN NODE...
#   whole RUN                              # no two attempts at the same time, and the log replays
# SPDX-License-Identifier: Apache-2.0

# A rank that finds a living rank of an earlier attempt says so.
cat >"$TAP/rank" <<'END'
#!/bin/sh
dir=$1
shift
for file in "$dir"/pid.*; do
    attempt=${file##*/pid.}
    [ "${attempt%%.*}" -lt "$LOCKSTEP_RESTART" ] 2>/dev/null || continue
    case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$(cat "$file")/status" 2>/dev/null) in
    '' | Z | X) continue ;; # nobody has reaped it yet
    esac
    echo "attempt $LOCKSTEP_RESTART rank $RANK: $file lives: $(cat "/proc/$(cat "$file")/status" | head -n 4 | tr '\n' ' ')" >>"$dir/overlap"
done
cp /proc/self/environ "$dir/$LOCKSTEP_NODE/environ" 2>/dev/null
echo $$ >"$dir/pid.$LOCKSTEP_RESTART.$RANK.$LOCKSTEP_NODE"
[ ! -e "$dir/hook" ] || . "$dir/hook" # may add options of the trainer
exec "$@"
END
chmod +x "$TAP/rank"
nodes_begin()
{
    site_start
    export LOCKSTEP_CONTROL="$url" LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token"
}
site_again() # at the same address
{
    rm -f "$site/control.url"
    LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen "${url#*://}" 2>>"$TAP/control.err" &
    control=$!
    await test -s "$site/control.url"
}

# RUN NODE NODES RANKS-A-NODE STEPS [OPTION...]: a launcher in the background
launch()
{
    run=$1 node=$2 nodes=$3 ranks=$4 steps=$5
    shift 5
    mkdir -p "$TAP/$run"
    save="--checkpoint-dir $TAP/$run/checkpoints --checkpoint-every 20"
    [ "$nodes" = 2 ] || save='' # checkpoints of the demo are for one number of ranks
    {
        LOCKSTEP_STATE=$TAP/$run/$node timeout -k 5 100 "$LOCKSTEP" run --name "$run" --nnodes "$nodes" --node "$node" -n "$ranks" \
            --max-restarts 9 --backoff 0s --grace 2s --lease 6s "$@" -- "$TAP/rank" "$TAP/$run" "$LOCKSTEP" trainer --steps "$steps" \
            --step-ms 20 $save \
            >"$TAP/$run/$node.out" 2>"$TAP/$run/$node.err"
        echo $? >"$TAP/$run/$node.status"
    } &
}
hook() # RUN
{
    mkdir -p "$TAP/$1"
    cat >"$TAP/$1/hook"
}
run_json() { echo "$TAP/$1/$2/runs/$1/nodes/$2/run.json"; }
field() { sed -n "s/.*\"$3\": *\([0-9]*\).*/\1/p" "$(run_json "$1" "$2")" | head -n 1; }
launcher() { field "$1" "$2" pid; }
keeper() { field "$1" "$2" keeper; }
child() # RUN NODE NAME: pid of a child of the keeper, such as `lockstep send`
{
    pgrep -P "$(keeper "$1" "$2")" -f "lockstep $3 " | head -n 1
}
steps_now() # RUN: of rank 0, whichever node has it
{
    cat "$TAP/$1"/*.out 2>/dev/null | sed -n 's/^\[rank 0\] step \([0-9]*\) .*/\1/p' | sort -n | tail -n 1
}
steps_beyond() # RUN STEP
{
    newest=$(steps_now "$1")
    [ "${newest:-0}" -ge "$2" ]
}
saved() # RUN STEP: some checkpoint of it or later
{
    for file in "$TAP/$1"/checkpoints/*; do
        [ -s "$file" ] && steps_beyond "$1" "$2" && return 0
    done
    return 1
}
ended() # RUN NODE...
{
    ended_run=$1
    shift
    for ended_node in "$@"; do [ -s "$TAP/$ended_run/$ended_node.status" ] || return 1; done
}
digest() { cat "$TAP/$1"/*.out | sed -n 's/^\[rank 0\] done after \(.*\)/\1/p' | tail -n 1; }
whole() # RUN: no two attempts at once, and its log gives the same decisions again
{
    [ ! -e "$TAP/$1/overlap" ] || cat "$TAP/$1/overlap" >&2
    is "$1: no rank of an attempt met one of an earlier attempt" "$([ -e "$TAP/$1/overlap" ] && echo met)" ''
    "$LOCKSTEP" why --replay "$1" >"$TAP/out" 2>"$TAP/err"
    grep -q 'byte-equal' "$TAP/out"
    tap_result $? "$1: its log replays to the same decisions"
}
show_run() { tail -n 8 "$TAP/$1"/*.err "$TAP/$1"/*.out >&2; }
