#!/bin/sh
# lockstep report -o: the page of a finished run as one file, opened from disk without a network.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/page.sh"

"$LOCKSTEP" demo --name done --nodes 2 --layout tp=2,pp=1,dp=4 --steps 70 -f gpu-slow:rank=2,step=20,steps=40 -f kill:rank=1,step=65 >"$TAP/demo.out" 2>"$TAP/demo.err"
ok "a page can be saved" "$LOCKSTEP" report done -o "$TAP/done.html"
has "it is one file" 'id="lockstep-saved"' "$TAP/done.html"
lacks "that names no other" '(src|href)="(https?:|//|app)' "$TAP/done.html"
[ "$(wc -c <"$TAP/done.html")" -lt 3000000 ]
tap_result $? "and is small"
is "nothing is left behind" "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'lockstep-page-*' -user "$(id -un)" -newer "$TAP/demo.out" 2>/dev/null | wc -l)" 0
exits 2 "a run that is not there" "$LOCKSTEP" report none -o "$TAP/none.html"
[ ! -e "$TAP/none.html" ]
tap_result $? "leaves no file"
exits 2 "two runs are one too many" "$LOCKSTEP" report done done -o "$TAP/two.html"
"$LOCKSTEP" report done -o "$TAP/no/such/folder.html" >"$TAP/out" 2>"$TAP/err"
has "a file that cannot be written is named" 'no/such/folder.html: No such file or directory$' "$TAP/err"
exits 2 "a file without a name" "$LOCKSTEP" report done -o ""

need_browser
mfu=$("$LOCKSTEP" report --json --parameters 1e7 --peak-tflops 2 done | python3 -c 'import json, sys; print(100 * json.load(sys.stdin)["mfu"])')
mttf=$("$LOCKSTEP" report --json done | python3 -c 'import json, sys; print(json.load(sys.stdin)["mttf_seconds"])')
page saved "$TAP/done.html" done "$mfu" "$mttf"
done_testing
