#!/bin/sh
# Damage anywhere in a checkpoint is found, the point is refused for good, and an older one is taken.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
"$train" "$TAP/whole" steps=3 mb=5 wait=verified >"$TAP/out" 2>&1 || skip_all "nothing can be saved here"
bytes=$(stat -c %s "$TAP/whole/step-3/rank-00000.safetensors")

cat >"$TAP/damage.py" <<'END'
import os, shutil, sys
point, kind = sys.argv[1], sys.argv[2]
tensors = point + "/rank-00000.safetensors"
def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at); byte = f.read(1); f.seek(at); f.write(bytes([byte[0] ^ 0x10]))
if kind == "flip":
    flip(point + "/" + sys.argv[3], int(sys.argv[4]))
elif kind == "zero":
    with open(tensors, "r+b") as f:
        f.seek(int(sys.argv[3])); f.write(bytes(4096))
elif kind == "cut":
    os.truncate(point + "/" + sys.argv[3], int(sys.argv[4]))
elif kind == "grow":
    open(tensors, "ab").write(b"x")
elif kind == "gone":
    os.unlink(point + "/" + sys.argv[3])
elif kind == "swap":
    shutil.copy(point + "/../step-2/" + sys.argv[3], point + "/" + sys.argv[3])
elif kind == "link":
    os.unlink(tensors); os.symlink("../step-2/rank-00000.safetensors", tensors)
elif kind == "more":
    shutil.copy(tensors, point + "/rank-00001.safetensors")
END

damaged() # NAME KIND ARG...: step 3 is refused, step 2 restored, and step 3 never again
{
    name=$1
    shift
    rm -rf "$TAP/ckpt"
    cp -r "$TAP/whole" "$TAP/ckpt"
    python3 "$TAP/damage.py" "$TAP/ckpt/step-3" "$@" || return 1
    "$LOCKSTEP" ckpt verify --newest "$TAP/ckpt" >"$TAP/out" 2>"$TAP/err"
    [ $? = 1 ] && grep -q '^step 3  refused: .' "$TAP/out" && grep -q '^step 2  verified' "$TAP/out"
    tap_result $? "$name: verify refuses it"
    [ "$1" != more ] || return 0 # readers that know COMMIT are not misled by another file
    "$train" "$TAP/ckpt" mb=5 restore=only >"$TAP/out" 2>"$TAP/err"
    [ $? = 0 ] && grep -qx 'restored 2' "$TAP/out"
    tap_result $? "$name: the older point is restored"
}

damaged "a bit of the header" flip rank-00000.safetensors 20
damaged "a bit of the first tensor" flip rank-00000.safetensors 70000
damaged "the last bit" flip rank-00000.safetensors $((bytes - 1))
for i in 1 2 3 4 5 6; do
    damaged "a bit in the middle ($i)" flip rank-00000.safetensors $((bytes / 7 * i))
done
damaged "a page of zeros" zero 4194304
damaged "one byte less" cut rank-00000.safetensors $((bytes - 1))
damaged "nothing left" cut rank-00000.safetensors 0
damaged "one byte more" grow
damaged "a bit of the manifest" flip rank-00000.manifest 300
damaged "half of the manifest" cut rank-00000.manifest 200
damaged "a bit of COMMIT" flip COMMIT 50
damaged "half of COMMIT" cut COMMIT 40
for file in COMMIT rank-00000.manifest rank-00000.safetensors; do
    damaged "$file is gone" gone $file
    damaged "$file is that of another step" swap $file
done
damaged "a link to another step's file" link
damaged "a file that was not committed" more

rm -rf "$TAP/ckpt"
cp -r "$TAP/whole" "$TAP/ckpt"
python3 "$TAP/damage.py" "$TAP/ckpt/step-3" flip rank-00000.safetensors 70000
"$train" "$TAP/ckpt" mb=5 restore=only >/dev/null 2>&1
has "the reason is kept" 'wrong checksum of bytes 0 to [1-9]' "$TAP/ckpt/step-3/REFUSED"
python3 "$TAP/damage.py" "$TAP/ckpt/step-3" flip rank-00000.safetensors 70000 # as it was
exits 1 "a point that was refused stays refused" "$LOCKSTEP" ckpt verify --newest "$TAP/ckpt"
ok "and is not taken" "$train" "$TAP/ckpt" mb=5 restore=only
has "also when its bytes are right again" '^restored 2$' "$TAP/out"
ok "the program saves that step again" "$train" "$TAP/ckpt" steps=3 mb=5
ok "and the new point is right" "$LOCKSTEP" ckpt verify --newest "$TAP/ckpt"
has "with the same number" '^step 3  verified$' "$TAP/out"
done_testing
