#!/bin/sh
# One user with a thousand directories and hundreds of rings does not keep another's run from being watched.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/node.sh"

control_start
as $ada mkdir -m 700 "$root/lockstep-$ada"
as $ada sh -c 'cd "$0" && seq -f "empty-%g" 1030 | xargs mkdir' "$root/lockstep-$ada"
as $ada sh -c 'cd "$0" && seq -f "file-%g" 20000 | xargs touch' "$root/lockstep-$ada"
as $ada sh -c 'cd "$0" && seq -f "run-%g" 300 | xargs mkdir -m 700 && for i in $(seq 300); do "$1" ring run-$i/rank-0.0.ring 0 1; done' \
    "$root/lockstep-$ada" "$hostile"
as $ada sh -c 'cd "$0" && seq -f "lockstep-x%g" 20000 | xargs touch' "$root"
is "there are hundreds of valid rings" "$(find "$root/lockstep-$ada" -name '*.ring' -size +10k | wc -l)" 300
daemon_start
await has_agent $ada
tap_result $? "the daemon serves the first user"
train $bob work 100
await has_steps work.u$bob 20
tap_result $? "another user's run is watched all the same"
most=$(agents $ada | wc -l)
[ "$most" -le 32 ]
tap_result $? "the first has no more than his share of processes ($most)"
is "root has none for them" "$(ps -eo ppid=,uid= | awk -v p="$daemon" '$1 == p && $2 == 0' | wc -l)" 0
is "a directory without a ring is no run of the site" "$(find "$site" -name 'empty-*' | wc -l)" 0
await has_steps work.u$bob 100
is "each step of the other's is told once" "$(number steps)" 100
daemon_stop
is "the daemon ends in order" $? 0
done_testing
