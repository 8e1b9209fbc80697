#!/bin/sh
# The recorded excerpts of logs are well-formed, and the answers about them do not get worse.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
logs=$SOURCE/test/recorded/logs

ok "the half for development is well-formed" python3 "$SOURCE/test/t/log-corpus.py" check "$logs" dev
ok "so is the half for the score" python3 "$SOURCE/test/t/log-corpus.py" check "$logs" scored
"$LOCKSTEP" bench autopsy --size 0 --show --json "$logs" >"$TAP/score" 2>"$TAP/said"
ok "the answers about the development half are as good as recorded" \
    python3 "$SOURCE/test/t/log-corpus.py" floor "$logs" dev "$TAP/score"
has "each case that is not right is shown with the reason" "^(silent|vague|wrong) +[a-z0-9-]+" "$TAP/said"
exits 2 "an unknown half is refused" "$LOCKSTEP" bench autopsy --half nosuch --size 0 "$logs"
exits 3 "a directory without cases is refused" "$LOCKSTEP" bench autopsy --size 0 "$TAP"
ok "a log is written, read and measured" sh -c \
    "'$LOCKSTEP' bench autopsy --size 2 --json '$logs' >'$TAP/size'; grep -q peak_bytes '$TAP/size'"
done_testing
