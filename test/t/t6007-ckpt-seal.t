#!/bin/sh
# A sealed checkpoint of another program: any later change is refused with its reason, and nothing wrong is sealed.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
make() { python3 "$SOURCE/test/t/seal-make.py" "$@"; }
make hf "$TAP/whole/checkpoint-500" || skip_all "no python3"
shard=model-00001-of-00002.safetensors
bytes=$(stat -c %s "$TAP/whole/checkpoint-500/$shard")
(cd "$TAP/whole" && find . -type f -exec md5sum {} + | sort) >"$TAP/sums"

ok "verifies nothing wrong without writing" "$LOCKSTEP" ckpt seal --dry-run "$TAP/whole/checkpoint-500"
exits 3 "a directory without a seal is not verified" "$LOCKSTEP" ckpt verify "$TAP/whole/checkpoint-500"
ok "a checkpoint is sealed" "$LOCKSTEP" ckpt seal "$TAP/whole/checkpoint-500" --json
has "with its state" '"state": *"sealed"' "$TAP/out"
is "its files" "$(number files)" 5
is "its step, of the directory's name" "$(number step)" 500
is "how many files were not checked" "$(number unchecked_files)" 2
(cd "$TAP/whole" && find . -type f ! -name lockstep.seal -exec md5sum {} + | sort) >"$TAP/sums2"
ok "no file of the checkpoint was changed" cmp "$TAP/sums" "$TAP/sums2"
ok "it verifies" "$LOCKSTEP" ckpt verify "$TAP/whole/checkpoint-500"
has "with its step" '^step 500  verified$' "$TAP/out"
ok "also in the directory above" "$LOCKSTEP" ckpt verify "$TAP/whole" --json
has "as a point" '"state": *"verified"' "$TAP/out"
has "with its name" '"name": *"checkpoint-500"' "$TAP/out"
ok "is listed" "$LOCKSTEP" ckpt ls "$TAP/whole" --json
has "with bytes and state" '"state": *"sealed"' "$TAP/out"
is "with files" "$(number files)" 5
ok "sealing it again changes nothing" "$LOCKSTEP" ckpt seal "$TAP/whole/checkpoint-500"

damaged() # NAME REASON COMMAND...: in a copy, whose directory is $TAP/c
{
    name=$1 reason=$2
    shift 2
    rm -rf "$TAP/c"
    cp -r "$TAP/whole/checkpoint-500" "$TAP/c"
    "$@" || return 1
    exits 1 "$name: verify refuses it" "$LOCKSTEP" ckpt verify "$TAP/c"
    has "$name: with the reason" "refused: .*$reason" "$TAP/out"
    "$LOCKSTEP" ckpt seal "$TAP/c" >"$TAP/out" 2>"$TAP/err"
    is "$name: a new seal does not hide it" $? 1
}
swap() { mv "$1" "$TAP/tmp" && mv "$2" "$1" && mv "$TAP/tmp" "$2"; }
damaged "a bit of a tensor" "$shard: changed: wrong checksum of bytes 0 to " make flip "$TAP/c/$shard" 70000
damaged "a bit of a header" "$shard: changed: wrong checksum" make flip "$TAP/c/$shard" 20
damaged "the last bit" "$shard: changed: wrong checksum" make flip "$TAP/c/$shard" $((bytes - 1))
damaged "a bit of the second block" "extra/rng_state: changed: wrong checksum of bytes 4194304 to " \
    make flip "$TAP/c/extra/rng_state" 4200000
damaged "one byte less" "$shard: truncated: has $((bytes - 1)) bytes" make cut "$TAP/c/$shard" $((bytes - 1))
damaged "nothing left" "$shard: truncated: has 0 bytes" make cut "$TAP/c/$shard" 0
damaged "one byte more" "$shard: grown" sh -c "echo -n x >>'$TAP/c/$shard'"
damaged "a page of zeros" "$shard: changed.*new pages of zeros" make zero "$TAP/c/$shard" 8192 12288
damaged "a file is gone" "extra/rng_state: missing" rm "$TAP/c/extra/rng_state"
damaged "a file was added" "extra/more: added" touch "$TAP/c/extra/more"
damaged "two files were swapped" "has the contents of model-0000[12]-of-00002" \
    swap "$TAP/c/$shard" "$TAP/c/model-00002-of-00002.safetensors"
damaged "a link in place of a file" "$shard: a symbolic link" \
    sh -c "rm '$TAP/c/$shard' && ln -s model-00002-of-00002.safetensors '$TAP/c/$shard'"
damaged "a bit of the seal" "checksum of lockstep.seal is wrong" make flip "$TAP/c/lockstep.seal" 60
damaged "half of the seal" "lockstep.seal" make cut "$TAP/c/lockstep.seal" 100
ok "unless that is what the user wants" "$LOCKSTEP" ckpt seal --replace "$TAP/c"
ok "and then it verifies" "$LOCKSTEP" ckpt verify "$TAP/c"
rm "$TAP/c/config.json"
ok "a list reads no contents" "$LOCKSTEP" ckpt ls "$TAP/c"
has "but knows the files" 'refused .*config.json: missing' "$TAP/out"

wrong() # NAME REASON COMMAND...: in a copy without a seal
{
    name=$1 reason=$2
    shift 2
    rm -rf "$TAP/c"
    cp -r "$TAP/whole/checkpoint-500" "$TAP/c"
    rm "$TAP/c/lockstep.seal"
    "$@" || return 1
    exits 1 "$name: is not sealed" "$LOCKSTEP" ckpt seal "$TAP/c"
    has "$name: with the reason" "^refused: .*$reason" "$TAP/out"
    ok "$name: no seal is left" test ! -e "$TAP/c/lockstep.seal"
}
wrong "a truncated shard" "$shard: truncated: has [0-9]+ bytes of tensors" make cut "$TAP/c/$shard" $((bytes - 4))
wrong "truncated in its header" "$shard: truncated inside its header" make cut "$TAP/c/$shard" 100
wrong "an empty shard" "$shard: empty" make cut "$TAP/c/$shard" 0
wrong "a missing shard" "of-00002.safetensors: shard 1 of 2 is missing" rm "$TAP/c/$shard"
wrong "a weight that is in no shard" "names tensor layer9.weight, which is not in" \
    sed -i 's/layer1.weight/layer9.weight/' "$TAP/c/model.safetensors.index.json"
wrong "a file of the index that is missing" "index.json: names other.safetensors, which is missing" \
    sed -i "s/$shard/other.safetensors/" "$TAP/c/model.safetensors.index.json"
wrong "half of an index" "index.json: line 1" make cut "$TAP/c/model.safetensors.index.json" 60
wrong "a file of zeros" "extra/rng_state: only zeros" make zero "$TAP/c/extra/rng_state" 0 5242880
wrong "zeros at the end" "extra/rng_state: zeros from byte 40960 to the end" make zero "$TAP/c/extra/rng_state" 40960 5242880
wrong "zeros at the end of a tensor" "$shard: zeros from byte" make zero "$TAP/c/$shard" 81920 "$bytes"
wrong "zeros at the begin" "$shard: begins with zeros" make zero "$TAP/c/$shard" 0 4096
wrong "NaN of F32" "n.safetensors: 1 numbers are NaN, first in tensor second" \
    make tensors "$TAP/c/n.safetensors" F32 '[2]' 0000c07f00000000
wrong "NaN of BF16" "first in tensor second" make tensors "$TAP/c/n.safetensors" BF16 '[2]' c07f0000
wrong "NaN of F8" "first in tensor second" make tensors "$TAP/c/n.safetensors" F8_E4M3 '[2]' 7f00
wrong "NaN between two blocks" "1 numbers are NaN, first in tensor b" make straddle "$TAP/c/n.safetensors"
ok "NaN may be allowed" "$LOCKSTEP" ckpt seal --allow-nan --json "$TAP/c"
is "and is counted" "$(number nan)" 1
make tensors "$TAP/c/n.safetensors" F32 '[2]' 0000807f00000000
ok "infinity is allowed, masks contain it" "$LOCKSTEP" ckpt seal --replace --json "$TAP/c"
is "and is counted" "$(number inf)" 1

make dcp "$TAP/dcp/step=40"
ok "a checkpoint of DCP is sealed" "$LOCKSTEP" ckpt seal "$TAP/dcp/step=40"
ok "and verifies" "$LOCKSTEP" ckpt verify "$TAP/dcp"
has "with its step" '^step 40 \(step=40\)  verified$' "$TAP/out"
rm "$TAP/dcp/step=40/lockstep.seal" "$TAP/dcp/step=40/__1_0.distcp"
exits 1 "a missing file of a rank is found" "$LOCKSTEP" ckpt seal "$TAP/dcp/step=40"
has "by the metadata" 'refused: .metadata: names __1_0.distcp, which is missing' "$TAP/out"
rm "$TAP/dcp/step=40/.metadata"
exits 1 "a save that did not finish is found" "$LOCKSTEP" ckpt seal "$TAP/dcp/step=40"
has "by the missing metadata" 'there is no .metadata beside it' "$TAP/out"

mkdir "$TAP/empty"
exits 3 "there is nothing to seal in an empty directory" "$LOCKSTEP" ckpt seal "$TAP/empty"
exits 2 "a directory is required" "$LOCKSTEP" ckpt seal

# Another program may call its directories as lockstep does.
mkdir -p "$TAP/steps"
make hf "$TAP/steps/step-7" >/dev/null
cp -r "$TAP/steps/step-7" "$TAP/steps/step-8"
exits 3 "directories of another program are not points, whatever they are called" "$LOCKSTEP" ckpt verify "$TAP/steps"
has "and the answer says what to do" "lockstep ckpt seal" "$TAP/err"
ok "one of them can be sealed" "$LOCKSTEP" ckpt seal "$TAP/steps/step-7"
has "with its step" '^sealed .*step-7: [0-9]+ files, .* step 7$' "$TAP/out"
ok "then it is verified" "$LOCKSTEP" ckpt verify "$TAP/steps"
is "and is there once" "$(cat "$TAP/out")" "step 7  verified"
ok "it is listed" "$LOCKSTEP" ckpt ls "$TAP/steps"
is "once" "$(grep -c . "$TAP/out")" 1
"$BUILD/test/ckpt-train" "$TAP/steps" steps=10 mb=1 keep=1 wait=verified >"$TAP/out" 2>&1
has "a training that saves a step of that name says why it cannot" '^failed 7: .*step-7 is the directory of another program' "$TAP/out"
ok "saves the others" test -f "$TAP/steps/step-10/COMMIT"
ok "and removes nothing that it did not write" "$LOCKSTEP" ckpt verify "$TAP/steps/step-7"
ok "sealed or not" test -d "$TAP/steps/step-8"
done_testing
