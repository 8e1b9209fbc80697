#!/bin/sh
# A directory of checkpoints that a user made is no trap for root, and another user's directory none for a writer.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/guard/guard.sh"
train=$BUILD/test/ckpt-train
"$train" "$TAP/whole" steps=6 mb=1 keep=9 wait=verified >"$TAP/said" 2>&1 || skip_all "nothing can be saved here"
escape=$(printf '\033')

# ---- names ----
mkdir "$TAP/names"
ln -s nowhere "$TAP/names/.step-7.$escape[31mred12345678.part"
mkdir "$TAP/names/.step-8.$escape[31mred12345678.part"
"$LOCKSTEP" ckpt ls "$TAP/names" >"$TAP/said" 2>&1
"$LOCKSTEP" ckpt verify "$TAP/names" >>"$TAP/said" 2>&1
"$LOCKSTEP" ckpt gc --keep 1 "$TAP/names" >>"$TAP/said" 2>&1
exits 1 "no name of a file reaches the terminal as an escape sequence" grep -q "$escape" "$TAP/said"

# ---- files that block ----
cp -r "$TAP/whole" "$TAP/fifo"
rm "$TAP/fifo/step-6/rank-00000.safetensors" "$TAP/fifo/step-5/COMMIT" "$TAP/fifo/step-4/rank-00000.manifest"
mkfifo "$TAP/fifo/step-6/rank-00000.safetensors" "$TAP/fifo/step-5/COMMIT" "$TAP/fifo/step-4/rank-00000.manifest"
timeout 20 "$LOCKSTEP" ckpt verify "$TAP/fifo" >"$TAP/said" 2>&1
is "a FIFO blocks no reader" "$(grep -c refused "$TAP/said") $(grep -c verified "$TAP/said")" '3 3'
ok "and is named" grep -q '^step 6  refused: rank-00000.safetensors: not a regular file' "$TAP/said"

# ---- what cannot be removed keeps nothing else ----
cp -r "$TAP/whole" "$TAP/kept"
mv "$TAP/kept/step-4" "$TAP/elsewhere"
ln -s "$TAP/elsewhere" "$TAP/kept/step-4"
mkdir "$TAP/kept/step-3/sub"
mkdir "$TAP/kept/.gone-step-2"
cp "$TAP/whole/step-2"/* "$TAP/kept/.gone-step-2"
"$LOCKSTEP" ckpt gc --keep 2 "$TAP/kept" >"$TAP/said" 2>"$TAP/errors"
is "gc says that it could not remove all" "$?" 3
is "a link is not followed" "$(ls "$TAP/elsewhere" | grep -c safetensors)" 1
is "older points go nevertheless, and what a killed gc left" "$(cd "$TAP/kept" && ls -d step-1 step-2 .gone-step-2 2>/dev/null)" ''
ok "it does not claim to have removed the link" grep -q '^step 4 .*kept: ' "$TAP/said"

# ---- a directory that all may write ----
mkdir -m 1777 "$TAP/all"
cat >"$TAP/squat.sh" <<END
mkdir -m 777 "$TAP/all/.step-1.00000000000000ab.part"
END
as $bob sh "$TAP/squat.sh"
as $ada "$train" "$TAP/all" steps=1 mb=1 job=171 wait=verified >"$TAP/said" 2>"$TAP/errors"
ok "a writer does not save into another user's directory" grep -q "^failed 1: .*belongs to user $bob" "$TAP/said"
is "bob's directory has nothing of it" "$(ls "$TAP/all/.step-1.00000000000000ab.part")" ''

# ---- restoring from a directory that all may write ----
mkdir -m 1777 "$TAP/drop"
as $ada "$train" "$TAP/drop" steps=1 mb=1 wait=verified >"$TAP/said" 2>&1
as $bob "$train" "$TAP/drop" steps=2 every=2 mb=1 wait=verified >"$TAP/said" 2>&1
is "bob does not load what ada saved" "$(grep -c '^restored' "$TAP/said")" 0
has "and is told why" "step 1: belongs to user $ada, expected $bob or root" "$TAP/said"
as $ada "$train" "$TAP/drop" mb=1 restore=only >"$TAP/said" 2>&1
is "ada continues from her own point, not from bob's newer one" "$(cat "$TAP/said")" 'restored 1'
as $ada "$LOCKSTEP" ckpt ls --json "$TAP/drop" >"$TAP/said" 2>&1
is "ls calls it foreign" "$(python3 -c 'import json,sys; print([(p["step"], p["state"]) for p in json.load(open(sys.argv[1]))["points"]])' "$TAP/said")" \
    "[(2, 'foreign'), (1, 'verified')]"
as $ada "$LOCKSTEP" ckpt verify "$TAP/drop" >"$TAP/said" 2>"$TAP/errors"
is "verify judges her own only" "$? $(cat "$TAP/said")" '0 step 1  verified'
has "and names the other" 'step 2: belongs to user .*; ignored' "$TAP/errors"
as $ada "$LOCKSTEP" ckpt gc --keep 1 "$TAP/drop" >"$TAP/said" 2>"$TAP/errors"
is "gc leaves bob's alone" "$? $(cd "$TAP/drop" && echo *)" "0 step-1 step-2"
chmod 755 "$TAP/drop"
as $bob "$train" "$TAP/drop" mb=1 at=1 restore=only >"$TAP/said" 2>&1
is "in a directory with a few chosen writers, any point can be restored" "$(cat "$TAP/said")" 'restored 1'
chmod 1777 "$TAP/drop"
printf 'cd "%s" && seq -f step-9%%g 1000 1999 | xargs mkdir\n' "$TAP/drop" >"$TAP/many.sh"
as $bob sh "$TAP/many.sh"
as $ada "$train" "$TAP/drop" mb=1 restore=only >"$TAP/said" 2>&1
is "a thousand newer directories of bob's displace nothing" "$(cat "$TAP/said")" 'restored 1'
chmod 777 "$TAP/drop/step-1"
as $ada "$train" "$TAP/drop" mb=1 restore=only >"$TAP/said" 2>&1
has "a point that everyone may change is not taken" 'none: .*step 1: everyone may write to it' "$TAP/said"
done_testing
