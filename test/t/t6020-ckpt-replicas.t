#!/bin/sh
# Replicas that have drifted apart: a point of slices from different ones is refused, with the name of the tensor.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train

ranks() # DIR WORLD DIFFERING_RANK WORD...: all ranks at once; 0 if all end well
{
    where=$1 world=$2 odd=$3 all=0 rank=0 pids=
    shift 3
    while [ $rank -lt "$world" ]; do
        differs=
        [ $rank != "$odd" ] || differs=differs=2
        "$train" "$where" rank=$rank world="$world" slices=1 compare=1 $differs "$@" >"$TAP/out.$rank" 2>&1 &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    for pid in $pids; do wait "$pid" || all=1; done
    cat "$TAP"/out.?
    return $all
}

for world in 2 3 5; do
    ok "$world equal replicas" ranks "$TAP/same$world" $world none job=1 steps=3 mb=3 wait=verified
    is "are verified, of each save" "$(grep -c '^verified' "$TAP/out")" $((3 * world))
    ok "and right" "$LOCKSTEP" ckpt verify "$TAP/same$world"
    ok "an engine that compares takes no more room on the disk" test "$(du -cb "$TAP/same$world"/step-3/*.safetensors |
        tail -n 1 | cut -f 1)" -lt 7500000
done

# Of two ranks, whichever differs.  Of more, the byte in the middle is in the slice of the rank in the middle, which differs.
for case in "2 0" "2 1" "3 1" "5 2"; do
    world=${case% *} odd=${case#* }
    dir=$TAP/odd$world$odd
    ok "rank $odd of $world differs in step 2: the training goes on" ranks "$dir" $world "$odd" job=1 steps=3 mb=3 wait=verified
    has "a save fails with the tensor and the two ranks" \
        "^failed 2: step 2: replicas differ: tensor model.weight of rank [0-4] and rank [0-4], rows [0-9]* to [0-9]*$" "$TAP/out"
    has "one of which is it" "^failed 2: .* rank $odd[, ]" "$TAP/out"
    has "the writer says so once" 'lockstep-ckpt-writer: rank [0-4]: step 2 is not saved: replicas differ' "$TAP/out"
    exits 0 "the next point is right" "$LOCKSTEP" ckpt verify "$dir"
    has "the one in between is refused" '^step 2  refused: replicas differ' "$TAP/out"
    rm -rf "$dir/step-3"
    ok "a restart" ranks "$dir" $world none job=2 restore=only mb=3
    is "takes the point before, on all ranks" "$(grep -c '^restored 1$' "$TAP/out")" "$world"
done


# Replicas on other nodes save elsewhere: what cannot be compared is no difference.
for rank in 0 1; do
    "$train" "$TAP/node$rank" agree="$TAP/nodes" rank=$rank world=2 group=1 slices=1 compare=1 differs=2 job=1 steps=2 mb=3 \
        wait=verified >"$TAP/out$rank" 2>&1 &
done
wait
is "nodes with one replica each save" "$(cat "$TAP/out0" "$TAP/out1" | grep -c '^verified')" 4

# Without the memory for one more slice a save is not compared, which is better than none.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    echo 'MemAvailable: 81920 kB' >"$TAP/meminfo"
    for rank in 0 1; do
        unshare -m sh -c 'mount --bind "$0" /proc/meminfo && exec "$@"' "$TAP/meminfo" "$train" "$TAP/poor" rank=$rank world=2 \
            slices=1 compare=1 job=1 steps=2 mb=64 differs=$((rank * 2)) images=1 wait=verified >"$TAP/out$rank" 2>&1 &
    done
    wait
    is "ranks with little memory save" "$(cat "$TAP/out0" "$TAP/out1" | grep -c '^verified')" 4
else
    skip "ranks with little memory save" "needs root and a mount namespace"
fi
done_testing
