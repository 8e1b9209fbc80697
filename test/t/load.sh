# load.sh - tests that judge real time, on a machine that others use too; after tap.sh.
#
#   slow_device()
#   {
#       timed_ok "a demo" 60 "$LOCKSTEP" demo --json ... || return
#       found_it
#       timed_result $? "names the slow rank"
#   }
#   timed slow_device
#   done_testing
#
# A failed timed_result is a failure at once, unless others took more than LOAD_LIMIT percent of the machine's
# processors in some second meanwhile.  Then the function is run again, LOAD_TRIALS times at most; after that each
# such result is a SKIP with that reason.  All other results of the function fail as ever, and nothing is repeated then.
# Each trial has a LOCKSTEP_STATE of its own, so runs may have the same names again.
# SPDX-License-Identifier: Apache-2.0
LOAD_LIMIT=${LOAD_LIMIT:-25} # as in load.py
LOAD_TRIALS=${LOAD_TRIALS:-3}
load_failed=0 load_trial=0 load_repeats=0 load_inside=no

load_begin()
{
    rm -f "$TAP/load"
    python3 "$SOURCE/test/t/load.py" $$ "$TAP" "$TAP/load" >&2 &
    load_watcher=$!
}

load_end() # leaves in load_percent what others took in the worst second; 0 when that is not known
{
    kill "$load_watcher" 2>/dev/null
    wait "$load_watcher" 2>/dev/null
    load_percent=$(cat "$TAP/load" 2>/dev/null) || load_percent=0
}

timed_result() # STATUS NAME: a result that depends on how real time went; returns whether it is a good one
{
    if [ $load_inside = no ]; then
        echo "Bail out! \"$2\" depends on time: call it from a function that timed runs"
        exit 1
    fi
    if [ "$1" = 0 ]; then
        tap_result 0 "$2"
        return 0
    fi
    load_failed=$((load_failed + 1)) load_before=$tap_failed
    tap_result 1 "$2" timed
    tap_failed=$load_before
    return 1
}

timed_ok() # NAME SECONDS COMMAND...: succeeds; returns 1 when it takes longer, which depends on how real time went
{
    load_name=$1 load_status=0
    shift
    timeout -k 5 "$@" >"$TAP/out" 2>"$TAP/err" </dev/null || load_status=$?
    case $load_status in
    124 | 137) timed_result 1 "$load_name" ;;
    *) tap_result $load_status "$load_name" ;;
    esac
}

timed_exits() # STATUS NAME COMMAND...: with this status, which depends on how real time went
{
    load_want=$1 load_name=$2 load_status=0
    shift 2
    "$@" >"$TAP/out" 2>"$TAP/err" </dev/null || load_status=$?
    [ $load_status = "$load_want" ] || echo "# exit status $load_status, expected $load_want: $*" >&2
    [ $load_status = "$load_want" ]
    timed_result $? "$load_name"
}

load_is_repeated() # FAILED BEFORE: whether one more trial may tell
{
    [ $load_failed -gt 0 ] && [ "$tap_failed" = "$1" ] && [ "$load_percent" -gt "$LOAD_LIMIT" ] &&
        [ $load_trial -lt "$LOAD_TRIALS" ]
}

timed() # FUNCTION [ARGUMENT...]: with its results
{
    load_trial=0 load_count=$tap_count load_failures=$tap_failed
    while :; do
        load_trial=$((load_trial + 1)) load_failed=0 tap_count=$load_count tap_failed=$load_failures
        load_begin
        load_inside=yes
        "$@" >"$TAP/trial"
        load_inside=no
        load_end
        load_is_repeated "$load_failures" || break
        echo "# trial $load_trial of $*: $load_failed failed while others took $load_percent % of the processors"
        load_repeats=$((load_repeats + 1)) LOCKSTEP_STATE=$TAP/state.$((load_repeats + 1))
    done
    load_reason="others took $load_percent % of this machine's processors, limit $LOAD_LIMIT %; trial $load_trial"
    if [ "$load_percent" -gt "$LOAD_LIMIT" ]; then
        sed "s/^not \(ok [0-9]* - .*\) # timed$/\1 # SKIP $load_reason/" "$TAP/trial"
    else
        tap_failed=$((tap_failed + load_failed))
        sed 's/ # timed$//' "$TAP/trial"
    fi
}
