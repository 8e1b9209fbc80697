#!/bin/sh
# tools/quiet, by which 'make demo' shows a line for packages and one for the build, and tools/test, which ends with
# what was skipped and why.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

quiet() { "$SOURCE/tools/quiet" "$TAP/logs/it.log" build "$@"; }

ok "a command that succeeds" quiet sh -c 'seq 1000; seq 1000 >&2'
is "is one line" "$(wc -l <"$TAP/out")" 1
has "which says so" '^build: ready after [0-9]+ s$' "$TAP/out"
is "what it printed is in the log" "$(wc -l <"$TAP/logs/it.log")" 2000
exits 7 "one that fails exits as it did" quiet sh -c 'seq 1000; echo "the cause" >&2; exit 7'
has "with the end of its log" '^    the cause$' "$TAP/out"
lacks "and no more" '^    900$' "$TAP/out"
has "and where that is" "the whole log is $TAP/logs/it.log\$" "$TAP/err"

if command -v make >/dev/null; then
    make -n -C "$SOURCE" BUILD="$TAP/nothing" demo >"$TAP/out" 2>"$TAP/err"
    has "make demo builds the programs" 'ninja -C .* programs|no-print-directory programs' "$TAP/out"
    lacks "and not the tests" 'no-print-directory all' "$TAP/out"
else
    skip "make demo builds the programs" "no make here"
fi
ninja -C "$BUILD" -t query programs >"$TAP/out" 2>"$TAP/err"
lacks "no test is among the programs" 'test' "$TAP/out"
has "the program is" ' lockstep$' "$TAP/out"

# ---- a test that finds in its middle that something is missing ----

cat >"$TAP/begun.t" <<'END'
. "$SOURCE/test/t/tap.sh"
ok "the first" true
skip_all "no moon here"
END
ok "a test that is skipped in its middle ends well" sh "$TAP/begun.t"
is "with what was seen, and why the rest was not" "$(tr '\n' ';' <"$TAP/out")" \
    "ok 1 - the first;ok 2 - the rest # SKIP no moon here;1..2;"

# ---- tools/test, with a meson of our own ----

mkdir -p "$TAP/bin" "$TAP/build/meson-logs"
cat >"$TAP/bin/meson" <<END
#!/bin/sh
echo "meson says much"
case "\$*" in
*"--logbase again"*) cp "$TAP/again" "$TAP/build/meson-logs/again.json" && echo "\$*" >"$TAP/asked" ;;
*) cp "$TAP/record" "$TAP/build/meson-logs/testlog.json" ;;
esac
exit \$(cat "$TAP/status")
END
chmod +x "$TAP/bin/meson"
tests() { PATH=$TAP/bin:$PATH "$SOURCE/tools/test" "$TAP/build"; }

cat >"$TAP/record" <<'END'
{"name": "one", "stdout": "ok 1 - fine\n1..1\n", "result": "OK"}
{"name": "two", "stdout": "1..0 # SKIP no GPU here\n", "result": "SKIP"}
{"name": "three", "stdout": "needs root\n", "result": "SKIP"}
{"name": "four", "stdout": "ok 1 - fine\nok 2 - page # SKIP no scdoc here\nok 3 - page # SKIP no scdoc here\n1..3\n", "result": "OK"}
END
echo 0 >"$TAP/status"
if command -v python3 >/dev/null; then
    ok "tests of which some are skipped" tests
    has "a skipped test is named with its reason" '^skipped: two: no GPU here$' "$TAP/out"
    has "also one that exits with 77" '^skipped: three: needs root$' "$TAP/out"
    has "and a part of one, each reason once" '^skipped in part: four: no scdoc here$' "$TAP/out"
    is "the numbers are the last line" "$(tail -n 1 "$TAP/out")" "2 passed, 0 failed, 2 skipped"
    printf '%s\n' '{"name": "five", "stdout": "not ok 1 - the sky is blue\n", "result": "FAIL"}' >>"$TAP/record"
    printf '%s\n' '{"name": "five", "stdout": "not ok 1 - again\n", "result": "FAIL"}' >"$TAP/again"
    echo 1 >"$TAP/status"
    exits 1 "one that fails" tests
    has "is run again, alone" '--logbase again five$' "$TAP/asked"
    has "is named after the skips" '^failed: five' "$TAP/out"
    has "with its line" '^    not ok 1 - the sky is blue$' "$TAP/out"
    is "and counted" "$(tail -n 1 "$TAP/out")" "2 passed, 1 failed, 2 skipped"
    printf '%s\n' '{"name": "five", "stdout": "ok 1\n", "result": "OK"}' >"$TAP/again"
    ok "one that passes then" tests
    has "is called unsteady" '^unsteady: five \(FAIL at first, then OK alone\)$' "$TAP/out"
    has "with what it said at first" '^    not ok 1 - the sky is blue$' "$TAP/out"
    is "and has passed" "$(tail -n 1 "$TAP/out")" "3 passed, 0 failed, 2 skipped"
    for name in six seven eight nine ten eleven twelve thirteen fourteen fifteen; do
        echo "{\"name\": \"$name\", \"stdout\": \"not ok 1\", \"result\": \"FAIL\"}" >>"$TAP/record"
    done
    exits 1 "many that fail are not run again" tests
    is "and are failures" "$(tail -n 1 "$TAP/out")" "2 passed, 11 failed, 2 skipped"
    rm "$TAP/record"
    exits 1 "without a record nothing has passed" tests
    is "as the last line says" "$(tail -n 1 "$TAP/out")" "0 passed, 1 failed, 0 skipped"
else
    skip "tools/test" "no python3 here"
fi
done_testing
