# tap.sh - the few words a whole-program test needs; prints TAP for meson.
#
#   . "$SOURCE/test/t/tap.sh"
#   ok "says its version" "$LOCKSTEP" version
#   exits 2 "refuses an unknown command" "$LOCKSTEP" nonsense
#   has "names the nearest one" "did you mean" "$TAP/err"
#   done_testing
#
# From meson: LOCKSTEP is the program, SOURCE the source tree, BUILD the build directory.  TAP is a
# folder of the test's own, removed at the end; $TAP/out and $TAP/err are what the last command
# printed.
# SPDX-License-Identifier: Apache-2.0
set -u
TAP=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-t.XXXXXX")
tap_count=0 tap_failed=0
trap 'rm -rf "$TAP"' EXIT
trap 'exit 1' INT TERM HUP
LOCKSTEP_STATE=$TAP/state
LOCKSTEP_CONFIG=/dev/null # not this machine's own
export LOCKSTEP_STATE LOCKSTEP_CONFIG

tap_result() # STATUS NAME [WORD]: the word goes behind a failed one (load.sh)
{
    tap_count=$((tap_count + 1))
    if [ "$1" = 0 ]; then
        echo "ok $tap_count - $2"
        return 0
    fi
    echo "not ok $tap_count - $2${3:+ # $3}"
    echo "# not ok $tap_count - $2" >&2
    tap_failed=$((tap_failed + 1))
    for tap_file in out err; do
        [ -f "$TAP/$tap_file" ] && head -n 40 "$TAP/$tap_file" | sed "s/^/# $tap_file: /" >&2
    done
    return 0
}

exits() # STATUS NAME COMMAND...
{
    tap_want=$1 tap_name=$2 tap_got=0
    shift 2
    "$@" >"$TAP/out" 2>"$TAP/err" </dev/null || tap_got=$?
    [ "$tap_got" = "$tap_want" ] || echo "# exit status $tap_got, expected $tap_want: $*" >&2
    [ "$tap_got" = "$tap_want" ]
    tap_result $? "$tap_name"
}

ok() # NAME COMMAND...
{
    tap_name=$1
    shift
    exits 0 "$tap_name" "$@"
}

has() # NAME EXTENDED-REGEXP FILE
{
    grep -Eq -- "$2" "$3"
    tap_result $? "$1"
}

is() # NAME GOT EXPECTED
{
    [ "$2" = "$3" ] || echo "# got '$2', expected '$3'" >&2
    [ "$2" = "$3" ]
    tap_result $? "$1"
}

number() # NAME: of the counts in $TAP/out, which come last
{
    sed -n "s/^ *\"$1\": *\([0-9]*\),\{0,1\}$/\1/p" "$TAP/out" | tail -n 1
}

await() # COMMAND...: until it is true, a minute at most
{
    tap_left=1200
    until "$@" >/dev/null 2>&1; do
        tap_left=$((tap_left - 1))
        if [ $tap_left -le 0 ]; then
            echo "# waited a minute in vain: $*" >&2
            return 1
        fi
        sleep 0.05 # between two looks
    done
}

bearer() # FILE: settings for curl with that token, so that ps does not show it
{
    printf 'header = "Authorization: Bearer %s"\n' "$(cat "$1")" >"$TAP/curlrc-$(basename "$1")"
    echo "$TAP/curlrc-$(basename "$1")"
}

lacks() # NAME EXTENDED-REGEXP FILE
{
    ! grep -Eq -- "$2" "$3"
    tap_result $? "$1"
}

skip() # NAME WHY
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# Of a test that has begun, the rest is skipped and what was seen so far counts.
skip_all() # WHY
{
    if [ "$tap_count" -gt 0 ]; then
        skip "the rest" "$1"
        done_testing
    fi
    echo "1..0 # SKIP $1"
    exit 0
}

done_testing()
{
    echo "1..$tap_count"
    exit $((tap_failed > 0))
}
