#!/bin/sh
# kill -9 of the trainer, of the writer, of both, or of the launcher's processes at random moments: whatever was reported as written is there, and nothing
# partial is accepted.  LOCKSTEP_TEST_KILLS: how often.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
dir=$TAP/ckpt
kills=${LOCKSTEP_TEST_KILLS:-15}
steps=0

random() { od -An -N2 -tu2 /dev/urandom | tr -d ' '; } # 0 to 65535
last() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$TAP/log" | tail -n 1; }
has_writer() { grep -q '^writer [1-9]' "$TAP/log"; }
gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null; }

bad=0 i=0
while [ $i -lt "$kills" ]; do
    i=$((i + 1))
    wait=none
    [ $((i % 2)) = 0 ] || wait=written
    : >"$TAP/log" # the one of the last round must not be read
    "$train" "$dir" steps=1000000 mb=2 keep=2 wait=$wait pause=1 >"$TAP/log" 2>"$TAP/err" &
    trainer=$!
    await has_writer || bad=1
    writer=$(last writer)
    sleep "0.$(printf '%03d' $(($(random) % 400)))" # a random moment is the test
    case $((i % 3)) in
    0) kill -9 $trainer ;;
    1) kill -9 $trainer "$writer" ;;
    2)
        kill -9 "$writer"
        sleep "0.$(printf '%03d' $(($(random) % 400)))" # another random moment
        kill -9 $trainer
        ;;
    esac
    wait $trainer 2>/dev/null
    await gone "$writer" || bad=1
    "$LOCKSTEP" ckpt verify --newest "$dir" --json >"$TAP/out" 2>/dev/null
    code=$?
    written=$(last written)
    step=$(python3 -c 'import json, sys; p = json.load(open(sys.argv[1]))["points"]; print(p[0]["step"] if p else 0)' "$TAP/out")
    if [ $code = 1 ] || grep -q WRONG "$TAP/log" || [ "${written:-0}" -gt "$step" ] || [ "$step" -lt "$steps" ]; then
        echo "# kill $i: verify exits $code, newest $step, written ${written:-none}, before $steps" >&2
        bad=1
    fi
    steps=$step
done
is "after $kills kills nothing partial is accepted and nothing written is lost" $bad 0
[ "$steps" -gt 0 ]
tap_result $? "and training advanced, to step $steps"
ok "the last point is restored" "$train" "$dir" mb=2 restore=only
has "byte for byte" '^restored ' "$TAP/out"

# Below a launcher: kill -9 of the agent, of the launcher, or of everything at once.
launched=$TAP/launched
bad=0 i=0 steps=0
while [ $i -lt $((kills / 5)) ]; do
    i=$((i + 1))
    : >"$TAP/log"
    # A shell does not pass the output on: pipes of a launcher that is killed end its ranks.
    "$LOCKSTEP" run -q --name "kill$i" --grace 1s -n 1 -- sh -c 'exec "$@" >>"$0" 2>&1' "$TAP/log" \
        "$train" "$launched" steps=1000000 mb=2 keep=2 wait=written pause=1 >"$TAP/err" 2>&1 &
    launcher=$!
    await has_writer || bad=1
    writer=$(last writer)
    all=$(for at in $(grep -lsF "runs/kill$i" /proc/[0-9]*/cmdline /proc/[0-9]*/environ | cut -d/ -f3 | sort -un); do
        [ "$at" = $$ ] || echo "$at"
    done)
    agent=$(for at in $all; do grep -qsxz agent "/proc/$at/cmdline" && echo "$at"; done)
    sleep "0.$(printf '%03d' $(($(random) % 400)))" # a random moment is the test
    case $((i % 3)) in
    0) kill -9 $launcher ;;
    1)
        [ -n "$agent" ] || bad=1
        kill -9 $agent # the training goes on
        was=$(last written)
        advanced() { [ "$(last written)" -gt "${was:-0}" ]; }
        await advanced || bad=1
        kill -9 $launcher
        ;;
    2)
        [ "$(echo "$all" | wc -l)" -ge 3 ] || bad=1 # launcher or keeper, agent, trainer
        kill -9 $launcher $all "$writer" 2>/dev/null
        ;;
    esac
    wait $launcher 2>/dev/null
    await gone "$writer" || bad=1
    "$LOCKSTEP" ckpt verify --newest "$launched" --json >"$TAP/out" 2>/dev/null
    code=$?
    written=$(last written)
    step=$(python3 -c 'import json, sys; p = json.load(open(sys.argv[1]))["points"]; print(p[0]["step"] if p else 0)' "$TAP/out")
    if [ $code = 1 ] || grep -q WRONG "$TAP/log" || [ "${written:-0}" -gt "$step" ] || [ "$step" -lt "$steps" ]; then
        echo "# kill $i below a launcher: verify exits $code, newest $step, written ${written:-none}, before $steps" >&2
        bad=1
    fi
    steps=$step
done
is "after $((kills / 5)) kills below a launcher, too" $bad 0
[ "$steps" -gt 0 ]
tap_result $? "and training advanced there, to step $steps"

# The trainer crashes right after the fence: the writer finishes the image.
rm -rf "$dir"
"$train" "$dir" steps=1000 every=1000 pause=0 wait=none mb=2 >"$TAP/log" 2>&1
verified() { "$LOCKSTEP" ckpt verify "$dir" >"$TAP/out" 2>&1; }
await verified
tap_result $? "the image of a program that has ended is written"
has "whole" '^step 1000  verified$' "$TAP/out"
done_testing
