#!/bin/sh
# lockstep run prints each verdict when it is reached, with what to do, and says what it could not observe.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

ours() # the lines of lockstep itself, without the prefix
{
    sed -n 's/^lockstep run: //p' "$1"
}

# A crash, in a job without the probe.
exits 3 "a rank that fails" timeout -k 5 60 "$LOCKSTEP" run --name crash -n 2 -- sh -c 'echo out; [ $RANK = 1 ] && exit 3; exec sleep 30'
ours "$TAP/err" >"$TAP/ours"
has "what is wrong" '^crash: rank 1 failed first: exited with 3$' "$TAP/ours"
has "by which evidence" '^  because rank 1 was the first to end' "$TAP/ours"
has "and what to do" '^  to do: Read the end of the log of the named rank' "$TAP/ours"
has "steps were not observed, and why" '^steps were not observed: no process loaded the lockstep probe' "$TAP/ours"
is "the last line counts, and says where to read on" "$(tail -n 1 "$TAP/ours")" "1 verdict; details: lockstep why crash"
lacks "nothing of that is on stdout" 'lockstep|verdict' "$TAP/out"
exits 1 "that command works" "$LOCKSTEP" why crash
has "it says what to do, too" '^  to do: Read the end of the log of the named rank' "$TAP/out"
has "and what was not observed" '^  steps: no process loaded the lockstep probe' "$TAP/out"
exits 1 "also in JSON" "$LOCKSTEP" why --json crash
has "as advice" '"advice": ?"Read the end of the log of the named rank' "$TAP/out"

exits 3 "with --quiet" timeout -k 5 60 "$LOCKSTEP" run -q --name quiet -n 2 -- sh -c '[ $RANK = 1 ] && exit 3; exec sleep 30'
ours "$TAP/err" >"$TAP/ours"
is "there is only the last line" "$(grep -v '^rank 1 exited' "$TAP/ours")" "1 verdict; details: lockstep why quiet"
ok "a quiet run without a verdict" "$LOCKSTEP" run -q -- true
is "prints nothing" "$(cat "$TAP/err")" ""

exits 3 "a run in another directory" "$LOCKSTEP" run -q --dir "$TAP/elsewhere" -n 1 -- sh -c 'exit 3'
has "is named by its path" "; details: lockstep why $TAP/elsewhere\$" "$TAP/err"

# A progress bar is not torn: our line begins a line of its own.
timeout -k 5 60 "$LOCKSTEP" run -n 2 -- sh -c 'if [ $RANK = 0 ]; then printf "50%%\r"; exec sleep 30; fi; sleep 0.5; exit 3' >"$TAP/out" 2>&1
tr '\r' '\n' <"$TAP/out" >"$TAP/lines"
has "a verdict does not begin in the middle of a progress bar" '^lockstep run: crash: rank 1 ' "$TAP/lines"
lacks "nor does it end there" '.lockstep run: ' "$TAP/lines"

# A slow rank, while the job runs.
printf 'lockstep-plan 1\nnodes 1\nfault gpu-slow:rank=1,step=10\n' >"$TAP/plan"
ok "a job with a slow rank" sh -c '"$1" run --name slow -n 3 -- "$1" trainer --steps 80 --step-ms 20 --host-work-ms 0 --plan "$2" 2>&1' \
    sh "$LOCKSTEP" "$TAP/plan"
has "the verdict is printed" '^lockstep run: straggler: rank 1 .* delays the others by ' "$TAP/out"
is "before the job ends" "$(grep -nE 'run: straggler: rank 1 |done after 80 steps' "$TAP/out" | head -n 1 | grep -c straggler)" 1
lacks "its steps were observed" 'not observed' "$TAP/out"
is "each verdict is printed once" "$(grep -c '^lockstep run: straggler: rank 1 ' "$TAP/out")" 1

# A program that was installed without its Python package.
mkdir -p "$TAP/prefix/bin"
cp "$LOCKSTEP" "$TAP/prefix/bin/lockstep"
ok "a program without its Python package runs" "$TAP/prefix/bin/lockstep" run -- true
has "and says so" '^lockstep run: the lockstep Python package is not installed: expected .*/prefix/bin/\.\./share/' "$TAP/err"
ok "unless nobody wants to attach" env LOCKSTEP_ATTACH=0 "$TAP/prefix/bin/lockstep" run -- true
lacks "then it is not said" 'Python package is not installed' "$TAP/err"

done_testing
