#!/bin/sh
# A damaged index or matrix is rebuilt from the logs by itself, while the controller goes on taking facts.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/site.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

site_start
site_run r1 4 40
is "a run" $? 0
ask() { status -K "$(reader)" -D "$TAP/head" "$api/$1"; }
is "it can be read" "$(ask 'runs/r1/steps?limit=1000')" 200
cp "$TAP/out" "$TAP/steps"
is "with all steps" "$(grep -o '"step":' "$TAP/steps" | wc -l)" 40
site_stop
matrix=$(find "$site" -name matrix.lsm | head -n 1)
cp "$matrix" "$TAP/matrix"

# The pages of one table: the file opens, and what is wrong is found when somebody asks.
bend() # TABLE: writes nonsense over its root page
{
    python3 - "$site/index.sqlite" "$1" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
size = db.execute("PRAGMA page_size").fetchone()[0]
page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (sys.argv[2],)).fetchone()[0]
db.close()
with open(sys.argv[1], "r+b") as file:
    file.seek((page - 1) * size)
    file.write(b"nonsense" * (size // 8))
END
}
whole() { [ "$(ask 'runs/r1/steps?limit=1000')" = 200 ] && cmp -s "$TAP/out" "$TAP/steps"; }
bend step
site_start
is "a damaged index is found by the question" "$(ask 'runs/r1/steps?limit=1000')" 503
has "the answer says that it will be rebuilt" 'rebuilt' "$TAP/out"
has "and when to ask again" '^Retry-After: [0-9]' "$TAP/head"
await whole
tap_result $? "it comes back by itself, and says the same"
has "the log says so" 'index is damaged; rebuilding it' "$TAP/control.err"
await grep -q 'the index is complete again' "$TAP/control.err"
tap_result $? "and when it has all again"
site_run r2 2 20
is "another run sends its facts" $? 0
is "and can be read" "$(ask 'runs/r2/steps' >/dev/null; grep -o '"step":' "$TAP/out" | wc -l)" 20

# While it runs, and with nobody to write anything: another run is asked for, the damaged one comes back as well.
site_stop
bend verdict
bend rank
site_start
for i in 1 2; do
    ask "runs/r$i/ranks" >"$TAP/status"
done
both() { [ "$(ask runs/r1/ranks)" = 200 ] && [ "$(grep -o '"rank":' "$TAP/out" | wc -l)" = 4 ] &&
    [ "$(ask runs/r2/ranks)" = 200 ] && [ "$(grep -o '"rank":' "$TAP/out" | wc -l)" = 2 ]; }
await both
tap_result $? "all runs come back, also those that ended long ago"
is "metrics" "$(status -K "$(reader)" "$url/metrics")" 200
has "say how many are left" '^lockstep_index_rebuilding_runs 0$' "$TAP/out"
site_stop

# The matrix.
for how in header short missing; do
    case $how in
    header) printf nonsense | dd of="$matrix" bs=1 conv=notrunc 2>/dev/null ;;
    short) truncate -s 100 "$matrix" ;;
    missing) rm "$matrix" ;;
    esac
    site_start
    await cmp -s "$matrix" "$TAP/matrix"
    tap_result $? "a matrix that is bad ($how) is made again, the same"
    await whole
    tap_result $? "and the run is read as before"
    site_stop
done
done_testing
