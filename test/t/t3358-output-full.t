#!/bin/sh
# A full disk takes what ranks print no more: what was not written is counted to the byte and to the line, and the run ends.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "a small disk of its own needs root"
mkdir "$TAP/small"
mount -t tmpfs -o size=400k,mode=700 lockstep-t "$TAP/small" 2>/dev/null || skip_all "a small disk cannot be mounted here"
trap 'umount "$TAP/small"; rm -rf "$TAP"' EXIT
cat >"$TAP/talk" <<'END'
i=0
while [ $i -lt 3000 ]; do
    echo "line $i of rank $RANK xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    i=$((i + 1))
done
END
printed=$((2 * $(RANK=0 sh "$TAP/talk" | wc -c)))

# The run's directory.
LOCKSTEP_STATE=$TAP/small timeout -k 5 60 "$LOCKSTEP" run --no-watch -q -n 2 --name r1 -- sh "$TAP/talk" >"$TAP/out" 2>"$TAP/err"
is "the job ends well" $? 0
kept=$(find "$TAP/small" -name 'rank-*.log' -exec cat {} + | wc -c)
lost=$(sed -n 's/.*run: \([0-9]*\) bytes that ranks printed could not be written to the files/\1/p' "$TAP/err")
[ "${lost:-0}" -gt 0 ]
tap_result $? "some bytes could not be kept"
is "kept and lost bytes are all that was printed" $((kept + ${lost:-0})) "$printed"
rm -rf "$TAP/small/"*

# The launcher's own output: it ends, and the lines that are missing are counted.
timeout -k 5 60 "$LOCKSTEP" run --no-watch -n 2 --name r2 -- sh "$TAP/talk" >"$TAP/small/shown" 2>"$TAP/err"
is "a run whose stdout is a full disk ends well" $? 0
whole=$(sed -n 's/.*RANK \(x*\)"$/\1/p' "$TAP/talk")
shown=$(grep -c "^\[rank [01]\] line .* $whole\$" "$TAP/small/shown")
lost=$(sed -n 's/.*run: \([0-9]*\) lines of stdout not shown.*/\1/p' "$TAP/err")
is "shown and missing lines are all that was printed" $((shown + ${lost:-0})) 6000
done_testing
