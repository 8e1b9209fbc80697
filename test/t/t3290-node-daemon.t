#!/bin/sh
# One daemon on a node serves every user's runs that come and go, each by an agent with that user's rights; runs of
# `lockstep run` keep their own agents.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "runs of several users need root"
command -v setpriv >/dev/null || skip_all "no setpriv here"
chmod 711 "$TAP"
site=$TAP/site root=$TAP/shm state=$TAP/agents
STEPS=80 ada=54321 bob=54322
setpriv --reuid=$ada --regid=$ada --clear-groups "$LOCKSTEP" version >/dev/null 2>&1 ||
    skip_all "another user cannot run the program from where it was built"
control='' daemon='' pids=''
leave()
{
    for pid in $daemon $pids; do kill "$pid" 2>/dev/null; done
    [ -z "$daemon" ] || wait "$daemon" 2>/dev/null
    [ -z "$control" ] || kill "$control" 2>/dev/null
    wait
    rm -rf "$TAP"
}
trap leave EXIT

mkdir -m 1777 "$root"
LOCKSTEP_STATE=$site "$LOCKSTEP" control --listen 127.0.0.1:0 --close-after 3s 2>"$TAP/control.err" &
control=$!
await test -s "$site/control.url"
url=$(cat "$site/control.url")
exits 2 "it needs a controller" "$LOCKSTEP" agent --every-run --every-root "$root" --state "$state"
LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token "$LOCKSTEP" agent --every-run --every-root "$root" \
    --state "$state" --node n1 2>"$TAP/daemon.err" &
daemon=$!

train() # UID RUN STEPS
{
    mkdir -p "$root/lockstep-$1/$2"
    chown "$1:$1" "$root/lockstep-$1" "$root/lockstep-$1/$2"
    chmod 700 "$root/lockstep-$1" "$root/lockstep-$1/$2"
    (cd / && exec setpriv --reuid="$1" --regid="$1" --clear-groups env -i PATH="$PATH" HOME=/ RANK=0 WORLD_SIZE=1 \
        LOCKSTEP_CONFIG=/dev/null LOCKSTEP_DIR="$root/lockstep-$1/$2" "$LOCKSTEP" trainer --steps "$3" --step-ms 50 \
        --host-work-ms 0) >"$TAP/train-$1-$2.out" 2>&1 &
    pids="$pids $!"
}
has_steps() { LOCKSTEP_STATE=$site "$LOCKSTEP" why --json "$1" >"$TAP/out" 2>"$TAP/err"; [ "$(number steps)" -ge "$2" ] 2>/dev/null; }
owned() { ps -eo pid=,ppid=,uid=,args= | awk -v p=$daemon -v u="$1" '$2 == p && $3 == u && / node-agent /' | wc -l; }

train $ada work $STEPS
train $bob work $STEPS
await has_steps work.u$ada 20
tap_result $? "a run of one user reaches the controller"
await has_steps work.u$bob 20
tap_result $? "and one of another with the same name, as another run"
is "each has an agent with its user's rights" "$(owned $ada) $(owned $bob)" "1 1"
is "whose spool is its user's" "$(stat -c '%u %a' "$state/runs/work.u$ada/spool")" "$ada 700"
! setpriv --reuid=$ada --regid=$ada --clear-groups ls "$state/runs/work.u$ada/spool" >/dev/null 2>&1
tap_result $? "though he cannot reach it by a path"
is "and no token is on disk" "$(grep -rl lst_ "$state" | wc -l)" 0
before=$(ps -eo pid=,ppid=,uid=,args= | awk -v p=$daemon -v u=$ada '$2 == p && $3 == u && / node-agent / { print $1 }')
kill -9 "$before"
other() { [ "$(owned $ada)" = 1 ] && ! kill -0 "$before" 2>/dev/null; }
await other
tap_result $? "an agent that dies is started again"
train $ada late 40
await has_steps late.u$ada 10
tap_result $? "a run that comes later is found"
# Nobody else's directory is followed.
mkdir -p "$root/lockstep-$bob/theirs" && chown $ada "$root/lockstep-$bob/theirs"
ln -s "$root/lockstep-$ada/work" "$root/lockstep-$bob/linked"
# A launcher's run is left to its own agent.
TMPDIR=$TAP LOCKSTEP_STATE=$TAP/user LOCKSTEP_DIR='' timeout 60 "$LOCKSTEP" run -q --name own -n 1 -- "$LOCKSTEP" trainer \
    --steps 20 >/dev/null 2>&1
is "a run with a launcher goes as ever" $? 0
await has_steps work.u$ada $STEPS
is "each step is told once" "$(number steps)" $STEPS
is "no frame is lost" "$(number lost_frames)" 0
await has_steps work.u$bob $STEPS
is "the other user's, too" "$(number steps)" $STEPS
lacks "what is not that user's was not served" 'theirs|linked' "$TAP/daemon.err"
# Nobody tells how it ended; that all of its ranks are gone is seen.
state_is() { curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs/$1" >"$TAP/out"; grep -Eq "\"state\": ?\"$2\"" "$TAP/out"; }
await state_is work.u$bob 'ended, exit status not known'
tap_result $? "a run whose ranks are all gone is over"
has "though no status of it is known" '"ended": ?false,"closed": ?true,"status": ?null' "$TAP/out"
has "it has a time at which it ended" '"end_time": ?"20' "$TAP/out"
curl -s -K "$(bearer "$site/tokens/reader.token")" "$url/api/v1/runs?open=true" >"$TAP/out"
lacks "it is none of those that go on" "work.u$bob" "$TAP/out"
has "the controller says it" "run work.u$bob: all 1 ranks are gone: ended, exit status not known" "$TAP/control.err"
LOCKSTEP_STATE=$site "$LOCKSTEP" why work.u$bob >"$TAP/out" 2>"$TAP/err"
has "and so does why" 'ended, exit status not known' "$TAP/out"
ok "it is judged the same again" env LOCKSTEP_STATE="$site" "$LOCKSTEP" why --replay work.u$bob
train $bob work 100
await state_is work.u$bob running
tap_result $? "when somebody speaks of it again it goes on"
await state_is work.u$bob 'ended, exit status not known'
tap_result $? "until that is over, too"
rm -rf "$root/lockstep-$ada/work"
gone() { [ ! -e "$state/runs/work.u$ada" ]; }
await gone
tap_result $? "when rings are gone, and all is with the controller, nothing stays behind"
is "the other runs go on" "$(owned $bob)" 1
children=$(pgrep -P $daemon | tr '\n' ' ')
kill -TERM $daemon
wait $daemon
is "it ends when told" $? 0
daemon=''
alive=0
for pid in $children; do ! kill -0 "$pid" 2>/dev/null || alive=$((alive + 1)); done
is "with all of its children" $alive 0
done_testing
