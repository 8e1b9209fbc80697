#!/bin/sh
# liblockstep.so is NCCL's profiler plugin 'lockstep', too: one library under two names, as built and as installed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

program=$BUILD/test/nccl-name
link=libnccl-profiler-lockstep.so
[ -f "$BUILD/liblockstep.so" ] || skip_all "no liblockstep.so in $BUILD"

unset LD_LIBRARY_PATH
ok "the build directory has the name" test "$BUILD/$link" -ef "$BUILD/liblockstep.so.0"
ok "by that name it is the library that the program has" env LD_LIBRARY_PATH="$BUILD" "$program"
has "with its ring" 'lockstep_clock_ns: the same' "$TAP/out"
has "the table of version 4" 'ncclProfiler_v4: lockstep' "$TAP/out"
has "that of version 5" 'ncclProfiler_v5: lockstep' "$TAP/out"
has "and that of version 6" 'ncclProfiler_v6: lockstep' "$TAP/out"

# As `make install` lays them out.
mkdir "$TAP/lib"
cp -L "$BUILD/liblockstep.so.0" "$TAP/lib/liblockstep.so.0"
ln -s liblockstep.so.0 "$TAP/lib/$link"
ok "so it is where it was installed" env LD_LIBRARY_PATH="$TAP/lib" "$program"

# And the test can fail: a copy is another library.
rm "$TAP/lib/$link"
cp "$TAP/lib/liblockstep.so.0" "$TAP/lib/$link"
exits 1 "a copy is seen" env LD_LIBRARY_PATH="$TAP/lib" "$program"
has "as another" 'lockstep_clock_ns: another' "$TAP/out"
done_testing
