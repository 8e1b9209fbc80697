#!/bin/sh
# Every command has a page, every option of its table is on the page, and the page names no
# option that the table does not have.  A group ("bench probe", "bench replay") may share one page.
# --config, which every command has, is on lockstep(1) and lockstep.yaml(5).
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

"$LOCKSTEP" completion table >"$TAP/whole-table"
awk -F '\t' '$1 != "option" || $3 != "config"' "$TAP/whole-table" >"$TAP/table"

page_of() # COMMAND
{
    own=$SOURCE/man/lockstep-$(echo "$1" | tr ' ' '-').1.scd
    if [ -f "$own" ]; then
        echo "$own"
    else
        echo "$SOURCE/man/lockstep-${1%% *}.1.scd"
    fi
}

# Options as a page has them: lines such as "*-n*, *--ranks* N" at the left margin.
options_on_page() # PAGE
{
    sed -n 's/^\(\*-.\*, \)\{0,1\}\*--\([a-z0-9-]*\)\*.*/\2/p' "$1" | sort -u
}

awk -F '\t' '$1 == "command" { print $2 }' "$TAP/table" >"$TAP/commands"
while read -r command; do
    page=$(page_of "$command")
    ok "$command has a page" test -f "$page"
    [ -f "$page" ] || continue
    echo "$page" >>"$TAP/pages"
    options_on_page "$page" >"$TAP/on-page"
    awk -F '\t' -v c="$command" '$1 == "option" && $2 == c { print $3 }' "$TAP/table" |
        sort -u >"$TAP/in-table"
    comm -23 "$TAP/in-table" "$TAP/on-page" | sed 's/^/not on the page: --/' >"$TAP/out"
    [ ! -s "$TAP/out" ]
    tap_result $? "the page of $command has every option"
    awk -F '\t' -v c="$command" '$1 == "option" && $2 == c && $6 != "-" { print $6 }' "$TAP/table" |
        while read -r env; do grep -q "\*$env\*" "$page" || echo "not on the page: $env"; done >"$TAP/out"
    [ ! -s "$TAP/out" ]
    tap_result $? "the page of $command has every name in the environment"
    grep -q "lockstep-$(echo "$command" | tr ' ' '-')\*(1)\|lockstep-${command%% *}\*(1)" \
        "$SOURCE/man/lockstep.1.scd"
    tap_result $? "lockstep(1) points to $command"
done <"$TAP/commands"

sort -u "$TAP/pages" >"$TAP/all-pages"
while read -r page; do
    name=${page##*/}
    options_on_page "$page" >"$TAP/on-page"
    : >"$TAP/in-table"
    while read -r command; do
        [ "$(page_of "$command")" = "$page" ] || continue
        awk -F '\t' -v c="$command" '$1 == "option" && $2 == c { print $3 }' "$TAP/table"
    done <"$TAP/commands" | sort -u >"$TAP/in-table"
    comm -13 "$TAP/in-table" "$TAP/on-page" >"$TAP/out"
    [ ! -s "$TAP/out" ]
    tap_result $? "$name names no option that is not there"
done <"$TAP/all-pages"

# "++" begins a new line of a paragraph, which is indented further than the first.
for page in "$SOURCE"/man/*.scd; do
    sed -n '/^# EXAMPLE/,/^# SEE/p' "$page" | grep '++$' >"$TAP/out"
    is "the examples of ${page##*/} are indented alike" "$(cat "$TAP/out")" ""
done

for page in "$SOURCE"/man/*.scd; do
    if command -v scdoc >/dev/null; then
        scdoc <"$page" >"$TAP/out" 2>"$TAP/err"
        tap_result $? "${page##*/} is good scdoc"
    else
        skip "${page##*/} is good scdoc" "no scdoc here"
    fi
done

"$SOURCE/tools/thresholds" --check "$LOCKSTEP" >"$TAP/out" 2>&1
tap_result $? "lockstep.yaml(5) has the thresholds of the program: tools/thresholds writes them"
done_testing
