#!/bin/sh
# ckpt scrub reads everything slowly, marks what is damaged, and counts what is right as verified.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
dir=$TAP/ckpt
"$train" "$dir" steps=3 mb=5 wait=verified >"$TAP/out" 2>&1 || skip_all "nothing can be saved here"

json() # EXPRESSION: of the answer on $TAP/out
{
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
flip() # FILE AT
{
    python3 -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1)[0]; f.seek(-1, 1); f.write(bytes([b ^ 4]))' "$1" "$2"
}

ok "everything is right" "$LOCKSTEP" ckpt scrub "$dir" --rate 0 --json
is "and listed" "$(json '[(p["step"], p["state"], p["why"], p["marked"]) for p in a["points"]]')" \
    "[(3, 'verified', None, False), (2, 'verified', None, False), (1, 'verified', None, False)]"

rm "$dir/step-2/rank-00000.verified"
"$LOCKSTEP" ckpt ls "$dir" >"$TAP/out"
has "a point that was never read back" '^step 2  *committed' "$TAP/out"
ok "is read" "$LOCKSTEP" ckpt scrub "$dir" --rate 0
"$LOCKSTEP" ckpt ls "$dir" >"$TAP/out"
has "and is verified from then on" '^step 2  *verified' "$TAP/out"

flip "$dir/step-3/rank-00000.safetensors" 70000
exits 1 "damage is found" "$LOCKSTEP" ckpt scrub --dry-run --rate 0 "$dir"
exits 1 "a dry run leaves no mark" test -e "$dir/step-3/REFUSED"
exits 1 "damage is found again" "$LOCKSTEP" ckpt scrub --rate 0 "$dir" --json
is "and marked" "$(json '[(p["step"], p["state"], p["marked"]) for p in a["points"]]')" \
    "[(3, 'refused', True), (2, 'verified', False), (1, 'verified', False)]"
has "with the reason" 'wrong checksum of bytes 0 to [1-9]' "$dir/step-3/REFUSED"
flip "$dir/step-3/rank-00000.safetensors" 70000 # as it was
exits 1 "a marked point stays refused" "$LOCKSTEP" ckpt scrub --rate 0 "$dir"
"$train" "$dir" mb=5 restore=only >"$TAP/out" 2>&1
is "and is never taken again" "$(cat "$TAP/out")" 'restored 2'

# The rate is a limit: two points of about 8 MB at 4 MB/s take more than 2 s on any machine.
before=$(date +%s)
"$LOCKSTEP" ckpt scrub --rate 4 "$dir" >"$TAP/out" 2>&1
ok "the limit is kept" test $(($(date +%s) - before)) -ge 2

# A point that retention removes meanwhile is no damage.
"$train" "$TAP/moving" steps=2 mb=40 wait=verified >/dev/null 2>&1
"$LOCKSTEP" ckpt scrub --rate 20 "$TAP/moving" --json >"$TAP/out" 2>"$TAP/err" &
scrub=$!
await sh -c "ls -l /proc/$scrub/fd | grep -q step-2/rank-00000.safetensors"
mv "$TAP/moving/step-1" "$TAP/moving/.gone-step-1"
wait $scrub
is "removed while scrub runs: neither damage nor an error" "$? $(json '[p["state"] for p in a["points"]]')" "0 ['verified', 'gone']"

mkdir "$TAP/empty" "$TAP/sealed"
exits 3 "nothing there" "$LOCKSTEP" ckpt scrub "$TAP/empty"
exits 2 "a directory is needed" "$LOCKSTEP" ckpt scrub
exits 3 "and must exist" "$LOCKSTEP" ckpt scrub "$TAP/nowhere"
echo words >"$TAP/sealed/notes"
"$LOCKSTEP" ckpt seal --step 7 "$TAP/sealed" >/dev/null
ok "sealed checkpoints are read as well" "$LOCKSTEP" ckpt scrub "$TAP/sealed"
has "with their step" '^step 7  verified$' "$TAP/out"
echo other >"$TAP/sealed/notes"
exits 1 "and refused when they changed" "$LOCKSTEP" ckpt scrub "$TAP/sealed"

# On file systems that machines share, a save reads one of several parts back; scrub reads the rest.
ok "a training that reads a part back" "$train" "$TAP/parts" steps=3 mb=32 parts=4 wait=verified
ok "its points count as verified" "$LOCKSTEP" ckpt ls "$TAP/parts"
has "partly" '^step 3 .*verified .*one of 4 parts was read back' "$TAP/out"
ok "scrub" "$LOCKSTEP" ckpt scrub "$TAP/parts"
"$LOCKSTEP" ckpt ls "$TAP/parts" --json >"$TAP/out"
lacks "reads them as a whole" read_back_parts "$TAP/out"
is "and they are verified" "$(grep -c '"state": *"verified"' "$TAP/out")" 3
done_testing
