#!/bin/sh
# An installation has what its manual pages and its help name.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

command -v meson >/dev/null || skip_all "no meson here"
[ -f "$BUILD/lockstep" ] && [ -f "$BUILD/man/lockstep.1" ] || skip_all "nothing is built, or no scdoc here"
install() { meson install -C "$BUILD" --no-rebuild --quiet --destdir "$TAP/root"; }
ok "it can be installed below DESTDIR" install
units=$(dirname "$(find "$TAP/root" -name lockstep-control.service)")
ok "systemd finds the units, or the installation says how it can" "$SOURCE/dist/unit-note" "${units#"$TAP/root"}"
case $units in
"$TAP/root/usr/lib/systemd/system" | "$TAP/root/usr/local/lib/systemd/system")
    is "it looks there by itself" "$(cat "$TAP/out")" "" ;;
*) has "by a command" '^ *systemctl link ' "$TAP/out" ;;
esac
ok "it does not look below /opt" "$SOURCE/dist/unit-note" /opt/lockstep/lib/systemd/system
has "so there is a command for the units" 'systemctl link /opt/lockstep/lib/systemd/system/lockstep-\*\.service ' "$TAP/out"
has "and one for the user" 'systemd-sysusers /opt/lockstep/lib/sysusers\.d/lockstep\.conf$' "$TAP/out"
program=$(find "$TAP/root" -path '*/bin/lockstep')
prefix=${program%/bin/lockstep}
ok "the installed program starts" "$program" version
"$program" run --quiet --name "installed-$$" -- sh -c 'printf %s "$PYTHONPATH"' >/dev/null 2>&1
is "and finds its Python package beside it" "$(cat "$TAP/state/runs/installed-$$/out/command.log")" \
    "$prefix/share/lockstep/python/lockstep/site"

# Names as the pages have them: docs/NAME, and other pages as *NAME*(N).
sed 's/\\_/_/g' "$SOURCE"/man/*.scd >"$TAP/words"
"$program" completion table | awk -F '\t' '$1 == "command" { print $2 }' >"$TAP/commands"
while read -r name; do
    # shellcheck disable=SC2086 # "bench probe" is two words
    "$program" help $name
done <"$TAP/commands" >>"$TAP/words"
grep -oE 'docs/[A-Za-z0-9_.-]*[A-Za-z0-9]' "$TAP/words" | sed 's|^docs/||; /^NAME$/d' | sort -u >"$TAP/docs"
[ "$(wc -l <"$TAP/docs")" -ge 3 ]
tap_result $? "the pages name documents"
while read -r name; do
    ok "$name is installed" test -s "$prefix/share/doc/lockstep/$name"
done <"$TAP/docs"
grep -oE '\*lockstep[a-z.-]*\*\([0-9]\)' "$TAP/words" | tr -d '*)' | tr '(' '.' | sort -u >"$TAP/pages"
[ "$(wc -l <"$TAP/pages")" -ge 10 ]
tap_result $? "the pages name pages"
while read -r name; do
    ok "the page $name is installed" test -s "$prefix/share/man/man${name##*.}/$name"
done <"$TAP/pages"

# What ARCHITECTURE.md and the sources promise: the formats byte by byte, and the README.
for name in README.md SECURITY.md DEPLOY.md ring-format.md frame-format.md matrix-format.md checkpoint-format.md openapi.json; do
    ok "$name is there" test -s "$prefix/share/doc/lockstep/$name"
done
# What programs that save checkpoints need.
for name in bin/lockstep-ckpt-writer include/lockstep/ckpt.h; do
    ok "$name is there" test -s "$prefix/$name"
done
for name in liblockstep-ckpt.so liblockstep-ckpt.so.0 lockstep-ckpt.pc; do
    ok "$name is there" test -s "$(find "$prefix/lib" -name "$name")"
done
done_testing
