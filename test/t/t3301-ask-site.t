#!/bin/sh
# why, ps and diff ask a site's controller; a machine that has only a part of a run says so.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"

site_start
printf 'lockstep-plan 1\nnodes 2\nfault gpu-slow:rank=1,factor=3,step=20\n' >"$TAP/plan"
train() # NAME ARGUMENT...
{
    train_name=$1
    shift
    LOCKSTEP_STATE=$TAP/user LOCKSTEP_CONTROL=$url LOCKSTEP_TOKEN_FILE=$site/tokens/launch.token timeout -k 5 100 \
        "$LOCKSTEP" run -q --name "$train_name" -n 4 --nodes 2 -- "$LOCKSTEP" trainer --steps 60 --step-ms 20 "$@" \
        >"$TAP/run.out" 2>"$TAP/run.err"
}
train slow --plan "$TAP/plan"
is "a run is sent to the site" $? 0

ask() # COMMAND...: of a user who has a token that reads, and no run
{
    env LOCKSTEP_STATE="$TAP/nobody" LOCKSTEP_CONTROL="$url" LOCKSTEP_TOKEN_FILE="$site/tokens/reader.token" "$LOCKSTEP" "$@"
}

exits 1 "why asks the site" ask why slow
has "and prints its verdict" '^straggler: rank 1 \(node n0\)' "$TAP/out"
has "with the ledger" '^where .* GPU-seconds went' "$TAP/out"
cp "$TAP/out" "$TAP/remote"
LOCKSTEP_STATE=$site "$LOCKSTEP" why slow >"$TAP/beside" 2>"$TAP/err"
ok "it is what why prints beside the log" cmp "$TAP/remote" "$TAP/beside"
exits 1 "without a name it is the newest run" ask why
has "which is this one" '^run slow: 4 ranks' "$TAP/out"
exits 1 "the same as JSON" ask why --json slow
has "with the verdict" '"kind": "straggler"' "$TAP/out"
ok "the log can be replayed elsewhere" ask why --replay slow
has "byte for byte" 'byte-equal$' "$TAP/out"
exits 2 "a run that the site does not have" ask why other
has "is not found" "^lockstep why: $url: run 'other' not found" "$TAP/err"
exits 2 "following it is not offered" ask why --follow slow
exits 3 "an unknown token" env LOCKSTEP_STATE="$TAP/nobody" LOCKSTEP_TOKEN_FILE="$site/runs/slow/agent.token" \
    "$LOCKSTEP" why --control "$url" slow
has "is refused in the controller's words" 'token is not known' "$TAP/err"
exits 3 "no token" env LOCKSTEP_STATE="$TAP/nobody" "$LOCKSTEP" why --control "$url" slow
has "is refused, too" 'a token is required' "$TAP/err"
exits 2 "an option is stronger than the environment: a URL that is none" ask why --control ftp://x slow
exits 3 "a port where nobody listens" ask why --control http://127.0.0.1:1 slow

ok "ps asks the site" ask ps
has "and lists its runs" '^slow +ended +4 +0 .* 0  .*trainer' "$TAP/out"
ok "as JSON" ask ps --json
has "with the same fields" '"id": *"slow"' "$TAP/out"

train fast
is "another run" $? 0
exits 0 "diff fetches both logs" ask diff slow fast
has "and compares them" 'the program is the same' "$TAP/out"
exits 1 "in both directions" ask diff fast slow
has "the system is slower" 'the system, or the code between them, is slower' "$TAP/out"
loud() # CONTROLLER NAME: a run without --quiet
{
    env LOCKSTEP_STATE="$TAP/user" LOCKSTEP_TOKEN_FILE="$site/tokens/launch.token" "$LOCKSTEP" run --control "$1" --name "$2" -- true
}
exits 0 "a run that prints its messages" loud "$url" loud
has "ends with where its verdicts are" "^lockstep run: verdicts are at the controller: lockstep why loud --control $url\$" "$TAP/err"
exits 0 "one whose controller cannot be reached" loud http://127.0.0.1:1 alone
lacks "does not send its user there" "verdicts are at the controller" "$TAP/err"

is "nothing is left behind" "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'lockstep-log-*' -newer "$TAP/plan" -user "$(id -u)" | wc -l)" 0

# A machine of a larger run: its spools, and those of no other machine.
here=$TAP/user/runs/slow
is "the run's directory has the site's address" "$(cat "$here/control.url")" "$url"
rm "$here/spool/agent-n1.lsf"
exits 3 "a part of a run is not judged" env LOCKSTEP_STATE="$TAP/user" "$LOCKSTEP" why slow
has "why says which part it is" '^run slow: this machine has the facts of 2 of 4 ranks' "$TAP/out"
has "and where to ask" "lockstep why --control $url slow\$" "$TAP/out"
lacks "there is no verdict" 'straggler' "$TAP/out"
exits 3 "nor in JSON" env LOCKSTEP_STATE="$TAP/user" "$LOCKSTEP" why --json slow
has "which says so" '"partial": *true' "$TAP/out"
exits 1 "the directory of the site's own log is read as before" ask why "$site/runs/slow"

# For people who have only a browser or a code generator.
is "the document of the API needs no token" "$(status "$url/openapi.json")" 200
cp "$TAP/out" "$TAP/openapi"
ok "and is the one in docs" cmp "$TAP/openapi" "$SOURCE/docs/openapi.json"
printf 'lockstep-plan 1\nnodes 2\nfault kill:rank=1,step=10\n' >"$TAP/plan"
train dead --plan "$TAP/plan"
exits 1 "a crash stays open; metrics are those of runs in memory, as after a question" ask why dead
show metrics >"$TAP/out"
has "verdicts are counted by layer" '^lockstep_run_verdicts_open\{run="dead",kind="crash",layer="[a-z-]+"\} 1$' "$TAP/out"
has "and described" '^lockstep_run_verdict_info\{run="dead",id="[^"]+",kind="crash",layer="[a-z-]+",rank="1",node="n0",text="crash: rank 1 [^"]*"\} 1$' \
    "$TAP/out"
done_testing
