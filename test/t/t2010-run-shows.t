#!/bin/sh
# lockstep run: what is shown of lines that have not ended: progress bars and prompts.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

launch() # NAME ARGUMENT...: in the background; its pid is $launcher, its ranks wait for files in $TAP
{
    launch_name=$1
    shift
    rm -f "$TAP/go" "$TAP/other"
    : >"$TAP/out"
    timeout -k 5 60 "$LOCKSTEP" run --grace 500ms --no-watch --name "$launch_name" "$@" >"$TAP/out" 2>&1 </dev/null &
    launcher=$!
}

shown() # NAME TEXT: what is in the output, each return as R and each newline as N
{
    await sh -c 'tr "\r\n" RN <"$1" | grep -qxF "$2"' sh "$TAP/out" "$2"
    tap_result $? "$1"
}

wait_for='wait_for() { until [ -e "$1" ]; do sleep 0.02; done; };'

launch prompt -n 1 -- sh -c "$wait_for"' printf "continue? "; wait_for "$1"; echo yes' sh "$TAP/go"
shown "a prompt is shown before its line has ended" '[rank 0] continue? '
: >"$TAP/go"
wait "$launcher"
shown "and the rest of the line has no second prefix" '[rank 0] continue? yesN'

launch broken -n 2 -- sh -c "$wait_for"' if [ $RANK = 0 ]; then printf "continue? "; wait_for "$1"; echo yes
    else wait_for "$2"; echo hello >&2; wait_for "$1"; fi' sh "$TAP/go" "$TAP/other"
shown "a prompt" '[rank 0] continue? '
: >"$TAP/other"
shown "is broken off when another rank prints, also elsewhere on the same terminal" \
    '[rank 0] continue? N[rank 1] helloN'
: >"$TAP/go"
wait "$launcher"
shown "and goes on with its rank" '[rank 0] continue? N[rank 1] helloN[rank 0] yesN'
is "what is kept is as it was printed" "$(cat "$LOCKSTEP_STATE/runs/broken/out/rank-0.log")" 'continue? yes'

launch ended -n 2 -- sh -c "$wait_for"' if [ $RANK = 0 ]; then printf "2/2" >&2; wait_for "$1"; printf "\n\nend\n" >&2
    else wait_for "$2"; echo hello; wait_for "$1"; fi' sh "$TAP/go" "$TAP/other"
shown "a line" '[rank 0] 2/2'
: >"$TAP/other"
shown "that was broken off" '[rank 0] 2/2N[rank 1] helloN'
: >"$TAP/go"
wait "$launcher"
shown "does not end a second time" '[rank 0] 2/2N[rank 1] helloN[rank 0] N[rank 0] endN'

launch bar -n 1 -- sh -c "$wait_for"' printf "\r1/3\r2/3" >&2; wait_for "$1"; printf "\r3/3" >&2' sh "$TAP/go"
shown "a progress bar moves before its line has ended" '[rank 0] 1/3R[rank 0] 2/3'
: >"$TAP/go"
wait "$launcher"
shown "stays on its line and ends with it" '[rank 0] 1/3R[rank 0] 2/3R[rank 0] 3/3N'

launch plain -- sh -c "$wait_for"' printf "\r1/3\r2/3" >&2; wait_for "$1"; printf "\r3/3\r\n" >&2' sh "$TAP/go"
shown "a command that is no rank has its bar as it is" 'R1/3R2/3'
: >"$TAP/go"
wait "$launcher"
shown "to the last byte" 'R1/3R2/3R3/3RN'

launch endless -n 1 -- sh -c 'while [ ! -e "$1" ]; do printf .; sleep 0.03; done; echo' sh "$TAP/go"
await grep -q '^\[rank 0\] \.\.' "$TAP/out"
tap_result $? "who never pauses is shown, too"
: >"$TAP/go"
wait "$launcher"
is "on one line" "$(grep -c . "$TAP/out")" 1
done_testing
