#!/bin/sh
# Text from outside does not command the terminal, and shows what it is: no escape sequences, no change of direction, no
# invisible characters, no bytes that are not UTF-8; in text, JSON, logs and metrics.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

rlo=$(printf '\342\200\256') esc=$(printf '\033') zero=$(printf '\342\200\213')
evil="a${rlo}b${esc}[31mc${zero}d"
pure() # NAME FILE: is it UTF-8 without anything hidden?
{
    python3 - "$2" <<'END'
import sys, unicodedata
text = open(sys.argv[1], "rb").read().decode()  # fails where it is not UTF-8
bad = [hex(ord(c)) for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Co", "Cn") and c not in "\n\t"]
print(bad, file=sys.stderr)
sys.exit(1 if bad or not text else 0)
END
    tap_result $? "$1"
}

"$LOCKSTEP" run -q --name r1 -- sh -c 'exit 0' "$evil" "$(printf 'x\377y')" >"$TAP/run" 2>&1
"$LOCKSTEP" ps >"$TAP/out"
has "ps shows the command, escaped" 'a\\xe2.*x\\xffy' "$TAP/out"
pure "without what is hidden in it" "$TAP/out"
"$LOCKSTEP" ps --json >"$TAP/out"
pure "so does its JSON" "$TAP/out"
has "which escapes, too" 'x\\\\xffy' "$TAP/out"
cp "$TAP/out" "$TAP/json"
ok "which is JSON" python3 -c "import json; json.load(open(\"$TAP/json\"))"

"$LOCKSTEP" run --dry-run -- echo "$evil" "$(printf 'x\377y')" >"$TAP/out"
pure "and what would be started" "$TAP/out"
"$LOCKSTEP" run --name r2 -- "$TAP/$(printf 'no\377such')" >"$TAP/out" 2>"$TAP/err"
pure "and that a command is not there" "$TAP/err"

mkdir "$TAP/dead"
printf 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: %s\n' "$evil" >"$TAP/dead/rank_0.log"
printf 'no dump' >"$TAP/dead/${evil}_dump_1"
"$LOCKSTEP" why "$TAP/dead" >"$TAP/out" 2>"$TAP/err"
has "why names a file" 'skipped a\?' "$TAP/err"
pure "without what is hidden in its name" "$TAP/err"
pure "and says what a log does without that" "$TAP/out"
"$LOCKSTEP" why --json "$TAP/dead" >"$TAP/out" 2>/dev/null
pure "so does its JSON" "$TAP/out"
exits 2 "an error repeats what was given" "$LOCKSTEP" control --listen "$evil"
pure "without what is hidden in it" "$TAP/err"

site_start
rc=$(reader)
for query in 'limit=a%E2%80%AEb%1B%5B31m' 'limit=%FF%FE' 'limit=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa%C3%A9' 'kind=%E2%80%8B'; do
    is "a query that is wrong ($query)" "$(status -K "$rc" "$api/runs?$query")" 400
    pure "is repeated without what is hidden in it" "$TAP/out"
    cp "$TAP/out" "$TAP/json"
    ok "in JSON" python3 -c "import json; json.load(open(\"$TAP/json\"))"
done
is "a path that is not there" "$(status -K "$rc" "$url/%E2%80%AE%FF")" 404
pure "is repeated without it as well" "$TAP/out"
pure "the controller's own log has none of it" "$TAP/control.err"
site_stop
done_testing
