#!/bin/sh
# All ranks go on from the same point, and no node removes a point that the others still need.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train

pair() # JOB DIR0 DIR1 WORD...: two ranks at once; 0 if both end well
{
    job=$1 zero=$2 one=$3 all=0
    shift 3
    "$train" "$zero" rank=0 world=2 job="$job" mb=1 "$@" >"$TAP/out.0" 2>&1 &
    first=$!
    "$train" "$one" rank=1 world=2 job="$job" mb=1 "$@" >"$TAP/out.1" 2>&1 || all=1
    wait $first || all=1
    cat "$TAP/out.0" "$TAP/out.1"
    return $all
}
both() # NAME PATTERN: a line of both ranks
{
    is "$1" "$(grep -c "$2" "$TAP/out.0") $(grep -c "$2" "$TAP/out.1")" '1 1'
}
flip() # FILE: its last byte but four
{
    python3 -c '
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-5, 2); byte = f.read(1); f.seek(-5, 2); f.write(bytes([byte[0] ^ 1]))' "$1"
}

# A shared directory.  Only rank 1 reads its own file: rank 0 alone would take step 3.
ok "two ranks save" pair 1 "$TAP/shared" "$TAP/shared" steps=3
flip "$TAP/shared/step-3/rank-00001.safetensors"
ok "a file of rank 1 is damaged, and both ranks" pair 2 "$TAP/shared" "$TAP/shared" restore=only
both "go back to the point before" '^restored 2$'
has "which is remembered" 'wrong checksum' "$TAP/shared/step-3/REFUSED"
ok "in the next start as well" pair 3 "$TAP/shared" "$TAP/shared" restore=only
both "by both" '^restored 2$'

# Disks of the nodes: the newest point that both have.
ok "two nodes save" pair 1 "$TAP/a" "$TAP/b" agree="$TAP/n" group=1 steps=4
mv "$TAP/b/step-4" "$TAP/b/kept"
mv "$TAP/a/step-3" "$TAP/a/kept"
ok "one node lost step 4, the other step 3, and both ranks" pair 2 "$TAP/a" "$TAP/b" agree="$TAP/n" group=1 restore=only
both "restore the newest that both have" '^restored 2$'
flip "$TAP/b/step-2/rank-00001.safetensors"
flip "$TAP/a/step-1/rank-00000.safetensors"
exits 1 "if each point is missing or damaged on a node" pair 3 "$TAP/a" "$TAP/b" agree="$TAP/n" group=1 restore=only
both "no rank begins anew" '^failed: no point can be restored by all ranks'
rm -rf "$TAP/b"
exits 1 "if one node has lost everything" pair 4 "$TAP/a" "$TAP/b" agree="$TAP/n" group=1 restore=only
both "neither" '^failed: no point can be restored by all ranks'
ok "if there was never a point" pair 5 "$TAP/c" "$TAP/d" agree="$TAP/m" group=1 restore=only
both "both begin at the first step" '^none: '
"$train" "$TAP/alone" steps=1 mb=1 >"$TAP/out"
flip "$TAP/alone/step-1/rank-00000.safetensors"
exits 4 "one rank whose only point is damaged" "$train" "$TAP/alone" mb=1 restore=only
has "does not begin anew" '^failed: no point can be restored: step 1: .*wrong checksum' "$TAP/out"

# Retention on a node's disk.  The writer removes points after the trainer has ended.
points() { ls -A "$1" | tr '\n' ' '; }
has_points() { [ "$(points "$1")" = "$2" ]; }
until_points() # NAME DIR POINTS
{
    await has_points "$2" "$3"
    is "$1" "$(points "$2")" "$3"
}
writer_gone() { ! kill -0 "$writer" 2>/dev/null; }
ended() # of the writer that $TAP/out names
{
    writer=$(sed -n 's/^writer //p' "$TAP/out")
    await writer_gone
}
node="rank=0 world=2 group=1 job=1 mb=1 restore=none wait=verified"
ok "a node that keeps one point" "$train" "$TAP/node" $node steps=3 keep=1
ended
is "removes none that other nodes may lack" "$(points "$TAP/node")" 'step-1 step-2 step-3 '
ok "but once all nodes have verified them" "$train" "$TAP/told" $node steps=3 keep=1 complete=1
until_points "it keeps one" "$TAP/told" 'step-3 '
ok "one may keep every second" "$train" "$TAP/second" steps=5 mb=1 keep=1 every_kept=2 wait=verified
until_points "for good" "$TAP/second" 'step-2 step-4 step-5 '

# A point that was replaced by one of the same step goes once that one is verified.
ok "three points" "$train" "$TAP/again" steps=3 mb=1
flip "$TAP/again/step-3/rank-00000.safetensors"
ok "of which the last is damaged and saved again" "$train" "$TAP/again" steps=3 mb=1 wait=verified
ended
ls -A "$TAP/again" >"$TAP/names"
has "the damaged one stays hidden" '^\.old-step-3\.' "$TAP/names"
ok "until gc" "$LOCKSTEP" ckpt gc --keep 9 "$TAP/again"
is "removes it" "$(points "$TAP/again")" 'step-1 step-2 step-3 '
done_testing
