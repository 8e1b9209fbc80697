# two-am.sh - nights of `lockstep drill --two-am` in a test; use after tap.sh.
#
#   night --seed 2          # the page is in $TAP/out, and as HTML in $TAP/page.html
#   passes "the second"     # every bar
# SPDX-License-Identifier: Apache-2.0

# What it needs is not here: the test is skipped.  In CI it is installed, and its absence a fault.
night() # OPTION...
{
    "$LOCKSTEP" drill --two-am --html "$TAP/page.html" "$@" >"$TAP/out" 2>"$TAP/err" </dev/null
    night_status=$?
    [ $night_status != 3 ] || [ "${CI-}" = true ] || skip_all "$(cat "$TAP/err")"
}
passes() # NAME
{
    grep MISSED "$TAP/out" >&2
    is "$1" "$night_status" 0
    lacks "no bar is missed" MISSED "$TAP/out"
    is "of nine" "$(sed -n '/^bars$/,/^$/p' "$TAP/out" | grep -c '^  ok ')" 9
}
