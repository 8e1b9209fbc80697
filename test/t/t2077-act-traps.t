#!/bin/sh
# With --act and a spare at hand nothing is done to jobs that are healthy, or slow for a reason that no other node would mend; the same job on a
# node with a slow device is swapped.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
. "$SOURCE/test/t/nodes.sh"

nodes_begin
# NAME FAULT: two nodes and a spare, with the fault from step 40 on
job()
{
    [ "$2" = none ] || printf 'lockstep-plan 1\nnodes 2\nfault %s\n' "$2" >"$TAP/plan.$1"
    hook "$1" <<END
[ ! -e "$TAP/plan.$1" ] || set -- "\$@" --plan "$TAP/plan.$1"
END
    for job_node in n1 n2 n3; do
        launch "$1" $job_node 2 2 "${3-200}" --act
        [ $job_node != n2 ] || await steps_beyond "$1" 1
    done
    await ended "$1" n1 n2 n3 || await ended "$1" n1 n2 n3
    "$LOCKSTEP" why "$1" >"$TAP/out" 2>"$TAP/err"
}
# What was done to the run, beside its start and end.
deeds() { sed -n "s/^decision: \([a-z-]*\) .*(\(done\|ordered\|failed\|refused\)).*/\1/p" "$TAP/out" | grep -vxE "start|end|watch|alert" | sort -u | tr "\n" " "; }
trap_case() # NAME FAULT
{
    job "$1" "$2"
    is "$1: it ends well" "$(cat "$TAP/$1/n1.status" "$TAP/$1/n2.status" | tr '\n' ' ')" '0 0 '
    has "$1: its decisions are known" '^decision: start \(done\)' "$TAP/out"
    is "$1: nothing is done" "$(deeds)" ''
    is "$1: it was never started again" "$(grep -c '^lockstep run: attempt' "$TAP/$1/n1.err")" 1
    lacks "$1: the spare never got ranks" '^lockstep run: attempt' "$TAP/$1/n3.err"
    [ $tap_failed = 0 ] || "$LOCKSTEP" why "$1" >&2
}
trap_case healthy none
trap_case all-slow all-slow:factor=1.5,step=40
trap_case uneven uneven-data:factor=1.5
trap_case long long-sequences
trap_case compile compile
trap_case eval eval
trap_case checkpoints slow-checkpoint:factor=3

# The same with one slow device.
job slow gpu-slow:rank=3,factor=3,step=40 600
case $(deeds) in *swap*) true ;; *) false ;; esac
tap_result $? "slow: a slow device is swapped for the spare"
[ $tap_failed = 0 ] || cat "$TAP/out" >&2
site_stop
done_testing
