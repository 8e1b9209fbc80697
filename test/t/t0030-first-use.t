#!/bin/sh
# What a new user meets first: a demo without a writable state directory, a program that includes probe-inline.h, and a
# program that is compiled against the build directory.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# Root may write everywhere, but no directory can be made in /proc.
ok "a demo runs without a writable state directory" env LOCKSTEP_STATE=/proc/none TMPDIR="$TAP" \
    "$LOCKSTEP" demo -n 2 --steps 5 --step-ms 20 --fault none
has "it says where the run is recorded" "^lockstep demo: /proc/none: cannot be created: .*; this run is recorded in $TAP/" \
    "$TAP/err"
has "and shows the run" '^where .* GPU-seconds went' "$TAP/out"
again=$(sed -n 's/^ .* why //p' "$TAP/out")
ok "its last command works as printed" "$LOCKSTEP" why "$again"
has "and reads that run" '^run .*: 2 ranks, 10 rank steps observed, ended' "$TAP/out"

library=$BUILD/liblockstep.so.0
if ! command -v cc >/dev/null; then
    skip "probe-inline.h finds the library of the launcher" "no C compiler here"
    done_testing
    exit
fi
if nm -D "$library" | grep -Eq '__(asan|tsan|ubsan|msan)'; then
    skip "probe-inline.h finds the library of the launcher" "built with a sanitizer"
    done_testing
    exit
fi
unset LOCKSTEP_LIB LOCKSTEP_LAUNCHER_LIB LD_LIBRARY_PATH

cat >"$TAP/steps.c" <<'END'
#include <lockstep/probe-inline.h>

int main(void)
{
    struct lockstep_probe *probe = NULL;

    lockstep_inline_probe_open(0, 1, &probe, NULL, 0);
    for (int step = 0; step < 6; step++) {
        lockstep_inline_step_begin(probe, (uint64_t)step);
        lockstep_inline_step_end(probe, (uint64_t)step);
    }
    lockstep_inline_probe_close(probe);
    return 0;
}
END
ok "a program with probe-inline.h compiles" cc -I"$SOURCE/include" -o "$TAP/steps" "$TAP/steps.c" -ldl
ok "it runs under lockstep run" "$LOCKSTEP" run -n 1 --name inline "$TAP/steps"
"$LOCKSTEP" why inline >"$TAP/out" 2>"$TAP/err"
has "it found the library of the launcher" '^run inline: 1 rank, 6 rank steps observed' "$TAP/out"
ok "LOCKSTEP_ATTACH=0 leaves it alone" env LOCKSTEP_ATTACH=0 "$LOCKSTEP" run -n 1 --name alone "$TAP/steps"
"$LOCKSTEP" why alone >"$TAP/out" 2>"$TAP/err"
has "so nothing was observed" 'no step was observed' "$TAP/out"

if ! command -v pkg-config >/dev/null; then
    skip "pkg-config finds the build directory" "no pkg-config here"
    done_testing
    exit
fi
echo '#include <lockstep/probe.h>
int main(void) { return lockstep_version() == 0; }' >"$TAP/version.c"
PKG_CONFIG_PATH=$BUILD/meson-uninstalled
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # a list of options
ok "a program compiles against the build directory" cc $(pkg-config --cflags lockstep) -o "$TAP/version" "$TAP/version.c" \
    $(pkg-config --libs lockstep)
ok "and runs" env LD_LIBRARY_PATH="$BUILD" "$TAP/version"
done_testing
