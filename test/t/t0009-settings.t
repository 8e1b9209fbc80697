#!/bin/sh
# Settings files: every key of every table is one, the strength of files, environment and flags, and what is
# said about a file that is wrong.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
unset LOCKSTEP_CONFIG
XDG_CONFIG_HOME=$TAP/home
export XDG_CONFIG_HOME
mkdir -p "$XDG_CONFIG_HOME/lockstep"
file=$XDG_CONFIG_HOME/lockstep/lockstep.yaml
[ ! -e /etc/lockstep/lockstep.yaml ] || skip_all "this machine has settings of its own"

ok "without a file" "$LOCKSTEP" version
printf 'version:\n  json: yes\n' >"$file"
ok "the user's file is read" "$LOCKSTEP" version
has "and believed" '^\{ "version"' "$TAP/out"
ok "a flag is stronger" "$LOCKSTEP" version --no-json
has "than a file" '^lockstep [0-9]' "$TAP/out"
: >"$TAP/other.yaml"
ok "another file can be given" "$LOCKSTEP" version --config "$TAP/other.yaml"
has "which is read instead" '^lockstep [0-9]' "$TAP/out"
LOCKSTEP_CONFIG=$TAP/other.yaml ok "also by the environment" "$LOCKSTEP" version
has "instead of the user's" '^lockstep [0-9]' "$TAP/out"
exits 2 "one that is given must be there" "$LOCKSTEP" version --config "$TAP/none.yaml"
has "and is named" "^lockstep version: $TAP/none.yaml: No such file" "$TAP/err"

# The daemon's mistakes are found by whoever starts first.
printf 'version:\n  json: yes\ncontrol:\n  tikc: 100ms\n' >"$file"
exits 2 "a misspelt key of another command is found" "$LOCKSTEP" version
has "with file, line, column and what was meant" \
    "^lockstep version: $file:4:3: unknown key 'tikc' in section 'control'; did you mean 'tick'\?$" "$TAP/err"
[ "$(wc -l <"$TAP/err")" = 1 ] && [ ! -s "$TAP/out" ]
tap_result $? "in one line, and nothing else"
printf 'contrl:\n  tick: 100ms\n' >"$file"
exits 2 "a misspelt section is found" "$LOCKSTEP" version
has "with its place" "$file:1:1: unknown section 'contrl'; did you mean 'control'\?$" "$TAP/err"
printf 'control:\n  tick: quickly\n' >"$file"
exits 2 "a value that is none is found" "$LOCKSTEP" version
has "with its place" "$file:2:9: key 'tick', value 'quickly': expected a time" "$TAP/err"
printf 'control:\n  tick: "1\n' >"$file"
exits 2 "what is no YAML is found" "$LOCKSTEP" version
has "with its place" "$file:[0-9]+:[0-9]+: " "$TAP/err"
head -c 2000000 /dev/zero | tr '\0' '#' >"$file"
exits 2 "a file that is none is refused" "$LOCKSTEP" version
has "by its size" 'larger than 1048576 bytes' "$TAP/err"
rm "$file"

printf 'judge:\n  verdict.least-csot: 0.1\n' >"$file"
exits 2 "a misspelt threshold is found" "$LOCKSTEP" version
has "with its place" "$file:2:3: unknown key 'verdict.least-csot' .* did you mean 'verdict.least-cost'\?$" "$TAP/err"
printf 'judge:\n  verdict.least-cost: 7\n' >"$file"
exits 2 "a threshold out of its bounds is found" "$LOCKSTEP" version
has "with them" "$file:2:23: threshold verdict.least-cost 7: expected 0.001 to 1 share$" "$TAP/err"
rm "$file"

# The file that people begin with has every key, and each of them is one.
ok "a file with all settings can be had" "$LOCKSTEP" completion settings
cp "$TAP/out" "$TAP/all"
ok "as it is it sets nothing" "$LOCKSTEP" version --config "$TAP/all"
"$LOCKSTEP" completion table |
    awk -F '\t' '$1 == "option" && $3 != "help" && $3 != "config" { print $2 "\t" $3 }' | sort >"$TAP/keys"
"$LOCKSTEP" completion table | awk -F '\t' '$1 == "threshold" { print "judge\t" $2 }' >>"$TAP/keys"
sort -o "$TAP/keys" "$TAP/keys"
sed -n 's/^#\([^# ].*\):$/section \1/p; s/^#  \([a-z0-9.-]*\): .*/key \1/p' "$TAP/all" |
    awk '/^section/ { section = substr($0, 9) } /^key/ { print section "\t" $2 }' | sort >"$TAP/in-file"
cmp "$TAP/keys" "$TAP/in-file" >"$TAP/out" 2>&1
tap_result $? "it has every option of every command"
# Values that fit their options: numbers, times and words as the tables call them.
sed -n 's/^#\([^#]\)/\1/p' "$TAP/all" |
    sed 's/: TIME$/: 1s/; s/: [A-Z]*\(,[A-Z]*\)*$/: 1/; s/: [A-Z][A-Z=,|.a-z0-9\/-]*$/: 1/' >"$TAP/live.yaml"
exits 0 "and all of them are understood" "$LOCKSTEP" doctor --help --config "$TAP/live.yaml"
exits 0 "by all commands" "$LOCKSTEP" version --no-json --config "$TAP/live.yaml"

# The page says of each threshold what the table says.
"$LOCKSTEP" completion table | awk -F '\t' '$1 == "threshold" {
    print "*" $2 "*"; print "\tDefault " $3 " " $6 " (" $4 " to " $5 "): " $7 "." }' >"$TAP/lines"
grep -Fvxf "$SOURCE/man/lockstep.yaml.5.scd" "$TAP/lines" >"$TAP/out"
[ -s "$TAP/lines" ] && [ ! -s "$TAP/out" ]
tap_result $? "lockstep.yaml(5) has every threshold as it is"
grep -c '^\*[a-z]*\.[a-z0-9-]*\*$' "$SOURCE/man/lockstep.yaml.5.scd" >"$TAP/out"
[ "$(cat "$TAP/out")" = "$(grep -c '^\*' "$TAP/lines")" ]
tap_result $? "and no other"

# What a file says reaches the judges, by the log.
printf 'judge:\n  verdict.least-cost: 0.25\ncontrol:\n  tick: 20ms\n' >"$TAP/judge.yaml"
ok "a run with settings" "$LOCKSTEP" run --config "$TAP/judge.yaml" -n 2 --name set -- \
    "$LOCKSTEP" trainer --steps 20 --step-ms 5 --host-work-ms 0
has "the judges are told, and who said so" \
    'run set: threshold verdict.least-cost set to 0.25 by settings file' "$LOCKSTEP_STATE/runs/set/control.log"
ok "and the log says it, too" "$LOCKSTEP" why --replay set
done_testing
