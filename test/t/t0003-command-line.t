#!/bin/sh
# The program as people first meet it.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

exits 2 "without a command it says how" "$LOCKSTEP"
has "on stderr" '^usage: lockstep' "$TAP/err"
for way in --help -h help; do
    ok "lockstep $way lists the commands" "$LOCKSTEP" "$way"
    has "on stdout" '^  version  ' "$TAP/out"
done
for topic in 'start a job' 'look at a run' 'ask a run for something, act on it' checkpoints 'set up and run a site'; do
    has "by what a user wants: $topic" "^$topic:\$" "$TAP/out"
done
exits 2 "an unknown command is refused" "$LOCKSTEP" vresion
has "with the nearest one" "^lockstep: unknown command 'vresion'; did you mean 'version'\?$" "$TAP/err"
exits 2 "an unknown option is refused" "$LOCKSTEP" version --jsno
has "with the nearest one, after the command's name" \
    '^lockstep version: unknown option --jsno; did you mean --json\?$' "$TAP/err"
exits 2 "an operand too many is refused" "$LOCKSTEP" version please
ok "lockstep --version" "$LOCKSTEP" --version
has "is lockstep version" '^lockstep [0-9]+\.[0-9]+\.[0-9]+$' "$TAP/out"
ok "version --json" "$LOCKSTEP" version --json
has "is an object" '^\{ "version": "[0-9.]+", "ring_format": [0-9]+,.*\}$' "$TAP/out"
full() { "$LOCKSTEP" version >/dev/full; }
exits 3 "an answer that cannot be written is no answer" full

# What cannot work is refused in one line, before anything is started.
while IFS='|' read -r words line; do
    # shellcheck disable=SC2086 # words
    exits 2 "lockstep $words is refused" env LOCKSTEP_STATE="$TAP/state" "$LOCKSTEP" $words
    has "in one line" "$line" "$TAP/err"
    [ "$(wc -l <"$TAP/err")" = 1 ] && [ ! -s "$TAP/out" ] && [ ! -e "$TAP/state" ]
    tap_result $? "and nothing else"
done <<'END'
demo extra|unexpected operand 'extra'
demo --ranks 100000|--ranks 100000: expected at most
demo --layout tp=3|tp=3,pp=1,dp=2 needs 6 ranks
demo --steps 0|--steps 0: expected
demo --step-ms -4|--step-ms -4: expected
bench verdicts --only nosuch|--only nosuch: expected .*gpu,
run --nodes 2 -- true|--nodes 2: needs -n
why nosuch|no runs in
why /nosuch/dir|/nosuch/dir: No such file or directory
run -n x -- true|-n x: expected a number of ranks from 1 to 65536
END

# Every command has help that names it and every option of its table.
"$LOCKSTEP" completion table >"$TAP/table"
awk -F '\t' '$1 == "command" { print $2 }' "$TAP/table" >"$TAP/commands"
"$LOCKSTEP" help | awk '
    /^[^ ]/ || /^$/ { group = 0 }
    sub(/^  bench /, "") { group = 1 }
    group { gsub(/^ +|,$/, ""); n = split($0, name, ", "); for (i = 1; i <= n; i++) print "bench " name[i]; next }
    /^  [a-z]/ { print substr($0, 3, 18) }' | sed 's/ *$//' | sort >"$TAP/listed"
sort "$TAP/commands" >"$TAP/sorted"
cmp -s "$TAP/sorted" "$TAP/listed"
tap_result $? "help lists each of them once" "$(diff "$TAP/sorted" "$TAP/listed")"
awk -F '\t' '$1 == "option" && $3 == "json" { print $2 }' "$TAP/table" | sort >"$TAP/answer"
comm -23 "$TAP/sorted" "$TAP/answer" | tr '\n' ',' >"$TAP/silent"
is "each has --json, but daemons, a screen, what sends, and text for a shell" "$(cat "$TAP/silent")" \
    'agent,ckpt serve,completion,control,fabric serve,relay,run,send,top,'
while read -r name; do
    # shellcheck disable=SC2086 # "bench probe" is two words
    ok "help $name" "$LOCKSTEP" help $name
    has "says how to use $name" "^usage: lockstep $name " "$TAP/out"
    cp "$TAP/out" "$TAP/help"
    # shellcheck disable=SC2086
    ok "$name --help" "$LOCKSTEP" $name --help
    cmp -s "$TAP/help" "$TAP/out"
    tap_result $? "is the same text"
done <"$TAP/commands"
done_testing
