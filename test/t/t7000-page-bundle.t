#!/bin/sh
# The page that is built into the program is the one of the sources, and small.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/page.sh"

size=0
for file in index.html app.js app.css; do
    size=$((size + $(gzip -9c "$SOURCE/web/dist/$file" | wc -c)))
done
[ $size -gt 10000 ] && [ $size -le 81920 ]
tap_result $? "its files have $size bytes compressed, at most 81920"
lacks "the lock file names no download address" 'resolved|https?://[^"]*\.tgz' "$SOURCE/web/package-lock.json"
lacks "the page loads nothing from elsewhere" '(src|href)="(https?:)?//' "$SOURCE/web/dist/index.html"

need_packages
cp -R "$SOURCE/web/src" "$TAP/src"
ok "the sources have no type errors" "$SOURCE/web/node_modules/.bin/tsc" --noEmit -p "$SOURCE/web"
ok "the page can be bundled" node "$SOURCE/web/build.mjs" "$TAP/dist"
for file in index.html app.js app.css; do
    ok "$file is what the sources give" cmp "$TAP/dist/$file" "$SOURCE/web/dist/$file"
done
done_testing
