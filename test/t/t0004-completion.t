#!/bin/sh
# The shells complete what the option tables have.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

for shell in bash zsh fish; do
    ok "completion $shell" "$LOCKSTEP" completion "$shell"
    cp "$TAP/out" "$TAP/lockstep.$shell"
    if command -v "$shell" >/dev/null; then
        ok "$shell can read it" "$shell" -n "$TAP/lockstep.$shell"
    else
        skip "$shell can read it" "no $shell here"
    fi
done
exits 2 "an unknown shell is refused" "$LOCKSTEP" completion tcsh
exits 2 "no shell is refused" "$LOCKSTEP" completion

if command -v zsh >/dev/null; then
    # Its completion system replaced by functions that print what they were asked to offer.
    zsh_offers() # WORD...
    {
        zsh -f -c '
            compdef() { }
            _arguments() { print -rl -- "$words[1] at $CURRENT" "$@" }
            _describe() { print -rl -- $commands }
            compadd() { print -rl -- "$@" }
            . "$1"; shift
            words=("$@") CURRENT=$#
            _lockstep' zsh "$TAP/lockstep.zsh" "$@"
    }
    ok "zsh completes a command" zsh_offers lockstep vers
    has "by its name" '^version:' "$TAP/out"
    ok "zsh completes an option" zsh_offers lockstep version --j
    has "of the command that was typed" '^version at 2$' "$TAP/out"
    has "by its name" '^--json\[' "$TAP/out"
    ok "zsh completes the second word of a group" zsh_offers lockstep bench ""
    has "by its name" '^replay$' "$TAP/out"
    ok "zsh completes an option of a group" zsh_offers lockstep bench replay --j
    has "of the command that was typed" '^replay at 2$' "$TAP/out"
else
    skip "zsh completes" "no zsh here"
fi

if command -v fish >/dev/null; then
    fish_offers() { HOME=$TAP fish --no-config -c "source $TAP/lockstep.fish; complete -C '$1'"; }
    ok "fish completes a command" fish_offers "lockstep vers"
    has "by its name" '^version' "$TAP/out"
    ok "fish completes an option" fish_offers "lockstep version --j"
    has "by its name" '^--json' "$TAP/out"
else
    skip "fish completes" "no fish here"
fi

command -v bash >/dev/null || {
    skip "bash completes" "no bash here"
    done_testing
}
# What bash would offer after these words, one a line.
offers() # WORD...
{
    bash -c '
        . "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _lockstep
        printf "%s\n" "${COMPREPLY[@]}"' bash "$TAP/lockstep.bash" "$@"
}

ok "bash completes a command" offers lockstep vers
has "by its name" '^version$' "$TAP/out"
ok "bash completes an option" offers lockstep version --j
has "by its name" '^--json$' "$TAP/out"
lacks "and nothing else" '^--help$' "$TAP/out"
ok "bash lists the commands" offers lockstep ""
lacks "but not the hidden ones" '^trainer$' "$TAP/out"

# Every option of every command is offered by all three.
"$LOCKSTEP" completion table >"$TAP/table"
awk -F '\t' '$1 == "option" { print $2 "\t" $3 }' "$TAP/table" >"$TAP/options"
tab=$(printf '\t')
while IFS="$tab" read -r command option; do
    # shellcheck disable=SC2086 # "bench probe" is two words
    offers lockstep $command "--$option" >"$TAP/out"
    grep -Fqx -e "--$option" "$TAP/out" &&
        grep -Eq -- "[']\*?--$option(=)?\[" "$TAP/lockstep.zsh" &&
        grep -Eq -- "from ${command%% *}.* -l $option " "$TAP/lockstep.fish"
    tap_result $? "$command --$option is completed everywhere"
done <"$TAP/options"
done_testing
