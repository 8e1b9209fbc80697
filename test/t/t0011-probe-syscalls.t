#!/bin/sh
# After open the probe makes no system call; another thread asks for its id once.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

loop=$BUILD/test/probe-loop
mkdir -m 700 "$TAP/rings"
LOCKSTEP_DIR=$TAP/rings
export LOCKSTEP_DIR
command -v strace >/dev/null || skip_all "no strace here"
strace -o "$TAP/try" true 2>/dev/null || skip_all "strace may not trace here"
nm -D "$loop" | grep -Eq '__(asan|tsan|ubsan|msan)' && skip_all "built with a sanitizer"

# What was called between the two marks; a clock without vDSO is the machine's, not ours.
between() # TRACE
{
    sed -n '/write(1, "loop begins/,/write(1, "loop ends/p' "$1" | grep -v 'write(1, "loop' |
        sed 's/^[0-9]* *//' | grep -Ev '^(clock_gettime|gettimeofday|time)\('
}

ok "the program runs under strace" strace -f -o "$TAP/trace" "$loop"
has "it opened a ring" 'rank-0\.0\.ring' "$TAP/trace"
has "the marks are in the trace" 'loop ends' "$TAP/trace"
between "$TAP/trace" >"$TAP/out"
[ ! -s "$TAP/out" ]
tap_result $? "no system call in 180,000 calls, and 100,000 of NCCL's"

# The main thread sits in join() meanwhile: only the thread that marks counts.
ok "the same in another thread" strace -f -e 'signal=none' -o "$TAP/trace" "$loop" thread
writer=$(awk '/loop begins/ { print $1; exit }' "$TAP/trace")
grep "^$writer " "$TAP/trace" >"$TAP/thread"
between "$TAP/thread" >"$TAP/out"
grep -v '^gettid()' "$TAP/out" >"$TAP/others"
[ ! -s "$TAP/others" ]
tap_result $? "nothing but gettid"
[ "$(grep -c '^gettid()' "$TAP/out")" = 1 ]
tap_result $? "and that once"
done_testing
