#!/bin/sh
# Flight-recorder dumps of hung jobs: who holds the others is named, victims never, and what cannot be read is
# said.  The dumps are real pickles, made by Python from jobs that really got stuck.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
"$LOCKSTEP" bench dumps --ranks 64 --ops 40 >"$TAP/bench" 2>&1 || echo "Bail out! bench dumps: $(cat "$TAP/bench")"
command -v python3 >/dev/null || skip_all "no python3 to make dumps with"
python3 "$SOURCE/test/t/why-dumps.py" "$LOCKSTEP" "$TAP"
exit $?
