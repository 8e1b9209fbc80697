#!/bin/sh
# What stopped a run can be scraped also when the run has ended and its core has left memory; what only slowed it can not.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

site_start
train() # NAME FAULT STEPS
{
    printf 'lockstep-plan 1\nnodes 2\nfault %s\n' "$2" >"$TAP/plan"
    LOCKSTEP_STATE=$TAP/user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token timeout -k 5 90 \
        "$LOCKSTEP" run -q --name "$1" --max-restarts 0 -n 4 --nodes 2 -- "$LOCKSTEP" trainer --steps "$3" --step-ms 20 --plan "$TAP/plan" \
        >"$TAP/run.out" 2>"$TAP/run.err"
}
metrics() { curl -sf -K "$(reader)" "$url/metrics" >"$TAP/out"; }
gone() { metrics && ! grep -q "^lockstep_run_ranks{run=\"$1\"}" "$TAP/out"; }

train slow gpu-slow:rank=1,factor=4,step=10 60
is "a run with a slow rank ends well" $? 0
train dead kill:rank=2,step=20 1000
is "a run whose rank is killed ends with its status" $? 137
await gone slow && await gone dead
tap_result $? "the cores of both leave memory"
has "what stopped one of them is still there" '^lockstep_run_verdict_info[{]run="dead",.*kind="crash".*rank="2".*text="crash: rank 2 ' "$TAP/out"
lacks "what slowed the other is not" '^lockstep_run_verdict_info[{]run="slow"' "$TAP/out"
site_stop
done_testing
