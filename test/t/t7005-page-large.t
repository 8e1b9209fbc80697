#!/bin/sh
# The page of a job of 16,384 ranks: the slow one is named, seen on the heatmap, and one step of it is read.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/page.sh"
. "$SOURCE/test/t/site.sh"
need_browser

site_start
register big >/dev/null
bodies=$("$BUILD/test/page-frames" big 16384 20 9001 big train "$TAP/big")
sent=0
for i in $(seq 0 $((bodies - 1))); do
    [ "$(post big "$TAP/big.$i")" = 200 ] && sent=$((sent + 1))
    rm "$TAP/big.$i"
done
is "all facts are taken" "$sent" "$bodies"
# The index follows the log; on a busy machine the page is faster.
indexed() { show "api/v1/runs/big/steps?limit=50" | grep -q '"step":19,'; }
await indexed
tap_result $? "and all steps are in the index"
page edge large "$url" "$(cat "$site/tokens/reader.token")" big
ok "it can be saved" env LOCKSTEP_STATE="$site" "$LOCKSTEP" report big -o "$TAP/big.html"
[ "$(wc -c <"$TAP/big.html")" -lt 12000000 ]
tap_result $? "as a file of some megabytes"
page edge savedlarge "$TAP/big.html" "" big
done_testing
