#!/bin/sh
# tools/deps installs what is missing, and only that; tried with a dpkg and an apt of our own.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

bin=$TAP/bin
mkdir "$bin" "$TAP/have"
for tool in sh env mktemp rm cat grep sed awk head test; do
    ln -s "$(command -v $tool)" "$bin/$tool"
done
cat >"$bin/dpkg-query" <<END
#!/bin/sh
for name; do :; done
[ -e "$TAP/have/\$name" ] && printf installed
END
cat >"$bin/apt-get" <<END
#!/bin/sh
echo "\$*" >>"$TAP/apt"
case "\$*" in
*update*) : >"$TAP/updated" ;;
*install*) [ ! -e "$TAP/stale" ] || [ -e "$TAP/updated" ] || exit 100
    [ ! -e "$TAP/broken" ] || exit 100
    for name; do case \$name in -*|install) ;; *) : >"$TAP/have/\$name" ;; esac; done ;;
esac
END
cat >"$bin/apt-cache" <<END
#!/bin/sh
[ -e "$TAP/lists" ]
END
printf '#!/bin/sh\ncat "%s/uid"\n' "$TAP" >"$bin/id"
chmod +x "$bin"/*-* "$bin/id"
echo 0 >"$TAP/uid"
: >"$TAP/lists"

deps() { PATH=$bin "$SOURCE/tools/deps" "$@"; }
again() { rm -rf "$TAP/apt" "$TAP/updated" "$TAP/have"; mkdir "$TAP/have"; }
has_all() { for name in $(PATH=$bin "$SOURCE/tools/deps" --list build); do : >"$TAP/have/$name"; done; }

ok "the list can be read" deps --list run build test ci chroot
has "and has what the compiler needs" '^gcc$' "$TAP/out"
exits 2 "an unknown purpose is refused" deps dance

has_all
ok "nothing missing: nothing done" deps build
[ ! -e "$TAP/apt" ] && [ ! -s "$TAP/err" ]
tap_result $? "and nothing said"

rm "$TAP/have/meson" "$TAP/have/gcc"
ok "as root what is missing is installed" deps build
has "and only that, without recommends" '^-q -y install --no-install-recommends gcc meson$' "$TAP/apt"
lacks "with the lists as they are" update "$TAP/apt"

again
rm "$TAP/lists"
ok "where apt has no lists" deps run
has "they are fetched" 'update' "$TAP/apt"
: >"$TAP/lists"

again
: >"$TAP/stale"
ok "where the lists name what is gone" deps run
[ "$(grep -c install "$TAP/apt")" = 2 ] && [ -e "$TAP/updated" ]
tap_result $? "they are fetched and it is tried again"
rm "$TAP/stale"

again
: >"$TAP/broken"
exits 1 "where apt fails it fails" deps run
has "and says what to do" 'run as root: apt-get install --no-install-recommends libjson-c5 ' "$TAP/err"
rm "$TAP/broken"

again
echo 1000 >"$TAP/uid"
exits 1 "neither root nor sudo" deps run
has "is one line that says what to do" \
    '^tools/deps: neither root nor sudo here; run as root: apt-get install .*libjson-c5 ' "$TAP/err"
[ "$(wc -l <"$TAP/err")" = 1 ]
tap_result $? "and only one"

again
printf '#!/bin/sh\necho "sudo $*" >>"%s/apt"\n[ "$1" = -n ] && shift\nexec "$@"\n' "$TAP" >"$bin/sudo"
chmod +x "$bin/sudo"
ok "with sudo" deps run
has "it goes through sudo, which must not ask without a terminal" '^sudo -n env .*apt-get' "$TAP/apt"
done_testing
