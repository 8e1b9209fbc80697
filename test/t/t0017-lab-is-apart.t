#!/bin/sh
# Sites run lockstep as root: nothing that trains, makes faults, scores or loads is in it.  That is lockstep-lab, which
# lockstep starts from its own directory and nowhere else.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# Names that the laboratory gives to others; those of the same files in lockstep-lab prove that the list is not empty.
names() { nm --defined-only "$@" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u; }
nm -g --defined-only "$BUILD/lab/liblab.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$TAP/lab"
for name in demo_main trainer_main bench_control_main bench_verdicts_main; do echo $name; done |
    sort -u - "$TAP/lab" >"$TAP/apart"
names "$BUILD/lockstep" >"$TAP/product"
names "$BUILD/lockstep-lab" >"$TAP/program"
for name in trainer_elastic_run slowfs_begin net_begin inject_create score_compare fleet_init; do
    grep -qx "$name" "$TAP/apart" || echo "$name"
done >"$TAP/out"
for name in demo_main trainer_main trainer_elastic_run slowfs_begin; do
    grep -qx $name "$TAP/program" || echo "not in lockstep-lab: $name"
done >>"$TAP/out"
[ ! -s "$TAP/out" ]
tap_result $? "the names of the laboratory are known"
comm -12 "$TAP/apart" "$TAP/product" >"$TAP/out"
[ -s "$TAP/product" ] && [ ! -s "$TAP/out" ]
tap_result $? "none of them is in lockstep"

ok "lockstep-lab says what it has" "$BUILD/lockstep-lab" --help
has "the demo" '^  demo ' "$TAP/out"
has "the benches" '^  bench probe ' "$TAP/out"
lacks "and no command of a site" '^  (run|agent|control) ' "$TAP/out"
ok "and which version it is" "$BUILD/lockstep-lab" --version
has "by its name" '^lockstep-lab [0-9]+\.[0-9]+' "$TAP/out"
ok "lockstep demo is lockstep-lab demo" "$LOCKSTEP" demo --list-faults
cp "$TAP/out" "$TAP/list"
ok "whichever starts it" "$BUILD/lockstep-lab" demo --list-faults
cmp -s "$TAP/list" "$TAP/out"
tap_result $? "with the same answer"

# A lockstep alone: the one of $PATH is not taken, whoever put it there.
mkdir "$TAP/alone" "$TAP/path"
cp "$LOCKSTEP" "$TAP/alone/lockstep"
printf '#!/bin/sh\necho taken\n' >"$TAP/path/lockstep-lab"
chmod +x "$TAP/path/lockstep-lab"
alone() { (cd "$TAP/path" && PATH=$TAP/path:$PATH "$TAP/alone/lockstep" "$@"); }
for words in demo "demo --help" "bench probe" trainer; do
    # shellcheck disable=SC2086 # words
    exits 3 "without lockstep-lab there is no $words" alone $words
    name=${words% --help}
    has "and the package is named" "^lockstep $name: lockstep-lab is not installed beside $TAP/alone/lockstep; \
install the package lockstep-lab\$" "$TAP/err"
    [ ! -s "$TAP/out" ] && [ "$(wc -l <"$TAP/err")" = 1 ]
    tap_result $? "and nothing else"
done
ok "what lockstep has still works" alone version
ok "and its help" alone --help
has "lists the demo" '^  demo ' "$TAP/out"
exits 2 "bad usage of a group is still found" alone bench nosuch

# Beside it, it is started with the words as they were typed.
cat >"$TAP/alone/lockstep-lab" <<'END'
#!/bin/sh
printf '<%s>' "$@"
END
chmod +x "$TAP/alone/lockstep-lab"
ok "beside it, it is started" alone bench control --ranks 8 'two words'
has "with the words as typed" '^<bench><control><--ranks><8><two words>$' "$TAP/out"
# As a link from elsewhere, it is still the directory of the file.
ln -s "$TAP/alone/lockstep" "$TAP/path/lockstep"
ok "also when lockstep is called by a link" "$TAP/path/lockstep" demo --json
has "from the directory of the file" '^<demo><--json>$' "$TAP/out"
# The settings are read before: a file that cannot be right is refused by whoever is asked.
printf 'demo:\n  rank: 8\n' >"$TAP/wrong.yaml"
exits 2 "a misspelt setting of the demo is found" alone demo --config "$TAP/wrong.yaml"
has "with its place" "wrong.yaml:2:.*'rank'" "$TAP/err"
exits 2 "by other commands, too" alone why --config "$TAP/wrong.yaml"
done_testing
