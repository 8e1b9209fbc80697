#!/bin/sh
# lockstep top in a real terminal (tmux): its views, keys, a resize, a restart of the run, a tiny terminal, no colours.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

command -v tmux >/dev/null || skip_all "tmux is not installed"
terminal() { tmux -f /dev/null -S "$TAP/tmux" "$@"; }
trap 'terminal kill-server 2>/dev/null; [ -z "$control" ] || kill -9 $control 2>/dev/null; rm -rf "$TAP"' EXIT

screen() { terminal capture-pane -p -t top >"$TAP/out" 2>/dev/null; }
shows() # EXTENDED-REGEXP
{
    screen && grep -Eq -- "$1" "$TAP/out"
}
waits() # NAME EXTENDED-REGEXP: until the screen shows it
{
    await shows "$2"
    tap_result $? "$1"
}
keys() { terminal send-keys -t top "$@"; }
start() # COLUMNS ROWS VARIABLES ARGUMENT...
{
    start_x=$1 start_y=$2 start_with=$3
    shift 3
    terminal kill-session -t top 2>/dev/null
    terminal new-session -d -s top -x "$start_x" -y "$start_y" \
        "env $start_with LOCKSTEP_CONFIG=/dev/null '$LOCKSTEP' top $* 2>'$TAP/top.err'; echo ended with \$?; exec cat"
}

# A server without a session ends, and a session that is asked for at that moment is lost with it.
terminal new-session -d -s keep "exec cat"

exits 2 "without a terminal there is nothing to show" "$LOCKSTEP" top
has "and what to do instead" 'lockstep why prints the same' "$TAP/err"

timeout -k 5 200 "$LOCKSTEP" demo --json --ranks 8 --nodes 2 --steps 100 --step-ms 40 --name live \
    --fault gpu-slow:rank=2,factor=3,step=10 --fault kill:rank=1,step=50 >"$TAP/demo" 2>&1 &
demo=$!
await test -s "$LOCKSTEP_STATE/runs/live/log.lsf"

start 80 24 "LC_ALL=C.UTF-8 TERM=xterm-256color LOCKSTEP_STATE=$LOCKSTEP_STATE" live
waits "a run that trains" '^live  running  8 of 8 ranks on 2 nodes  step [0-9]+'
waits "the straggler, as it is found" '^straggler: rank 2 \(node n0\) delays the others by'
waits "a bar per rank and step: the slow rank's are full" '^ +2 n0 .*█{3}'
screen
lacks "and no other's" '^ +[0134567] n[01] .*█{3}' "$TAP/out"
waits "its ledger's head" '^goodput +[0-9.]+ % ettr +[0-9.]+ %'
is "the keys are on the last line: no line is wrapped" "$(sed -n '24s/^\(F1Help\).*/\1/p' "$TAP/out")" F1Help
keys F6
waits "sorted by excess" 'sort: excess'
screen
is "the slow rank is first" "$(awk '/RANK NODE/ { getline; print $1 }' "$TAP/out")" 2
keys F4
keys n1 Enter
waits "a filter" 'filter: n1'
screen
is "shows that node only" "$(grep -Ec '^ +[0-9]+ n0 ' "$TAP/out")" 0
keys F4
keys Enter
keys 2
waits "the verdicts" '^OPEN .*straggler: rank 2'
screen
has "what does not fit is marked" '^OPEN .{74}>$' "$TAP/out"
keys Enter
keys End
"$LOCKSTEP" why --json live >"$TAP/why"
whole() # the screen has all that is to be done about one of them
{
    screen && python3 -c 'import json, sys
shown = " ".join(open(sys.argv[1]).read().split())
sys.exit(not any("to do: " + v["advice"] in shown for v in json.load(open(sys.argv[2]))["verdicts"]))' "$TAP/out" "$TAP/why"
}
await whole
tap_result $? "one of them, to its end, and no word is broken"
keys Enter
keys Tab
waits "the ledger" '^  productive +[0-9.]+ +[0-9.]+ %'
keys Tab
waits "the nodes" '^NODE +RANKS'
screen
has "each with its ranks" '^n1 +4 ' "$TAP/out"
keys F1
waits "help" 'F10 q +quit'
keys F1
keys 1
waits "the restart of the run is followed" 'step [0-9]+.*restarts 1'
waits "and its steps, too" 'step (5[1-9]|[6-9][0-9]) .*restarts 1'
terminal resize-window -t top -x 200 -y 50
waits "a larger terminal is used" '^F1Help'
await shows '█{40}'
tap_result $? "up to its edge"
terminal resize-window -t top -x 30 -y 5
waits "a tiny terminal is refused, not broken" 'too small'
terminal resize-window -t top -x 80 -y 24
waits "and grows again" '^ +2 n0 '
wait $demo
is "nothing of this disturbed the run" $? 0
waits "its end is shown" '^live  ended '
share=$(python3 - "$(terminal list-panes -t top -F '#{pane_pid}')" <<'END'
import os, sys
hz = os.sysconf("SC_CLK_TCK")
children = open(f"/proc/{sys.argv[1]}/task/{sys.argv[1]}/children").read().split()
stat = open(f"/proc/{children[0]}/stat").read().rsplit(")", 1)[1].split()
up = float(open("/proc/uptime").read().split()[0])
print(100 * (int(stat[11]) + int(stat[12])) / hz / (up - int(stat[19]) / hz))
END
)
is "it took at most 2 % of a core: $share" "$(awk -v share="$share" 'BEGIN { print (share != "" && share + 0 <= 2) }')" 1
keys q
waits "it ends" '^ended with 0'

start 80 24 "LC_ALL=C TERM=vt100 LOCKSTEP_STATE=$LOCKSTEP_STATE" live
waits "without UTF-8 and colours" '^ +2 n0 .*#{3}'
screen
is "there is ASCII only" "$(LC_ALL=C grep -c '[^ -~]' "$TAP/out")" 0
keys q
waits "it ends" '^ended with 0'

timeout -k 5 100 "$LOCKSTEP" demo --json --ranks 2 --nodes 1 --steps 12 --step-ms 20 --name sound --fault none >"$TAP/demo" 2>&1
start 80 24 "LC_ALL=C.UTF-8 LOCKSTEP_STATE=$LOCKSTEP_STATE" sound
waits "one node is not many" '^sound  ended  2 of 2 ranks on 1 node  '
waits "of a run that has ended nothing more is expected" '^it ended, and no fault was found'
keys q
waits "it ends" '^ended with 0'
"$LOCKSTEP" run -q --name bad -n 1 -- sh -c '"$0" trainer --steps 12 --step-ms 20; exit 3' "$LOCKSTEP" >"$TAP/demo" 2>&1
start 80 24 "LC_ALL=C.UTF-8 LOCKSTEP_STATE=$LOCKSTEP_STATE" bad
waits "a run that failed is not called sound" '^(crash: |no open verdict explains its end with status 3)'
keys q
waits "it ends" '^ended with 0'

timeout -k 5 100 "$LOCKSTEP" run -q --name stuck -n 2 -- "$LOCKSTEP" trainer --steps 100000 --step-ms 20 \
    >"$TAP/run.out" 2>"$TAP/run.err" &
job=$!
await test -s "$LOCKSTEP_STATE/runs/stuck/log.lsf"
start 80 24 "LC_ALL=C.UTF-8 LOCKSTEP_STATE=$LOCKSTEP_STATE" stuck
waits "a run that trains has a pace" '^stuck  running .*step [0-9]+  [0-9.]+ steps/s'
pid=$("$LOCKSTEP" stacks --json --rank 1 stuck | sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
kill -STOP "$pid"
waits "one that hangs makes no progress" '^stuck  running .*step [0-9]+  no progress'
kill -CONT "$pid"
waits "until it goes on" '^stuck  running .*step [0-9]+  [0-9.]+ steps/s'
keys q
waits "it ends" '^ended with 0'
kill -TERM $job
wait $job

site_start
LOCKSTEP_STATE=$TAP/user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token timeout -k 5 100 \
    "$LOCKSTEP" run -q --name far -n 2 -- "$LOCKSTEP" trainer --steps 100000 --step-ms 50 >"$TAP/run.out" 2>"$TAP/run.err" &
job=$!
await curl -sfk -K "$(reader)" "$api/runs/far/log"
start 80 24 "LC_ALL=C.UTF-8 LOCKSTEP_STATE=$TAP/nobody" --control "$url" --token-file "$site/tokens/reader.token" far
waits "a run of a site" '^far  running  2 of 2 ranks .*step [0-9]+'
waits "goes on" '^far .*step [1-9][0-9]+'
site_stop
waits "a controller that is gone is noticed" 'no answer from the controller|no longer answers'
keys q
waits "it ends nevertheless" '^ended with 0'
kill -TERM $job
wait $job
done_testing
