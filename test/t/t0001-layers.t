#!/bin/sh
# The rooms keep to their table, and tools/layers would notice if one did not.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

ok "the tree keeps to the table" "$SOURCE/tools/layers" "$SOURCE"

for room in "$SOURCE"/src/*/ "$SOURCE/lab/"; do
    ok "$(basename "$room") says what it is" test -s "$room/README.md"
done

mkdir -p "$TAP/tree"
cp -r "$SOURCE/src" "$SOURCE/lab" "$SOURCE/include" "$SOURCE/test" "$SOURCE/ARCHITECTURE.md" "$TAP/tree"

plant() # NAME FILE LINE EXPECTED
{
    mkdir -p "$(dirname "$TAP/tree/$2")"
    echo "$3" >"$TAP/tree/$2"
    exits 1 "sees $1" "$SOURCE/tools/layers" "$TAP/tree"
    has "says where, for $1" "$2:1: .*$4" "$TAP/out"
    rm "$TAP/tree/$2"
}

plant "a room that reaches upwards" src/core/planted.c '#include "base/log.h"' \
    'core may not include base'
plant "a judge that wants the agent" src/judge/planted.h '  #  include "agent/agent.h"' \
    'judge may not include agent'
plant "a test that reaches too far" src/wire/test/planted.c '#include "control/core.h"' \
    'wire may not include control'
plant "a name without a room" src/act/planted.c '#include "launch.h"' 'does not name its room'
plant "a way around" src/act/planted.c '#include "core/../judge/replay.h"' 'not a plain path'
plant "a part of a room that wants a part not named" src/judge/step/planted.c '#include "judge/slow/straggler.h"' \
    'judge/step may not include judge/slow'
plant "a part that wants what the whole room may" lab/trainer/planted.c '#include "lab/score/score.h"' \
    'lab/trainer may not include lab/score'
plant "angle brackets" src/act/planted.c '#include <judge/replay/replay.h>' 'include it with quotes'
plant "a room that does not exist" src/act/planted.c '#include "attic/box.h"' 'no room attic'
plant "a public header that leans on a room" include/lockstep/planted.h '#include "core/err.h"' \
    'public header'
ok "is content again when all that is gone" "$SOURCE/tools/layers" "$TAP/tree"

mkdir "$TAP/tree/src/cellar"
exits 1 "sees a room that the table does not have" "$SOURCE/tools/layers" "$TAP/tree"
rmdir "$TAP/tree/src/cellar"
sed -i 's/^| wire |\(.*\)| core |$/| wire |\1| core cmd |/' "$TAP/tree/ARCHITECTURE.md"
exits 1 "sees a table in which a room may use one below it" "$SOURCE/tools/layers" "$TAP/tree"
done_testing
