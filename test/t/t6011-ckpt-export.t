#!/bin/sh
# ckpt export --hf: the parts of all ranks as plain safetensors files, byte for byte, or nothing.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
"$train" "$TAP/one" steps=2 mb=3 wait=verified >"$TAP/out" 2>&1 || skip_all "nothing can be saved here"

json() # EXPRESSION: of the answer on $TAP/out
{
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}

# A reader that is as strict as the one of safetensors; where that is installed, it reads the files as well.
cat >"$TAP/read.py" <<'EOF'
import hashlib, json, os, struct, sys
sizes = {"F32": 4, "BF16": 2, "I64": 8, "F8_E4M3": 1, "U16": 2, "U8": 1}
def load(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    assert size <= 100000000 and data[8:9] == b"{"
    head = json.loads(data[8 : 8 + size], object_pairs_hook=lambda p: (len(dict(p)) == len(p) or sys.exit("a name twice")) and dict(p))
    assert head.pop("__metadata__") == {"format": "pt"}
    at = 0
    for name, t in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        count = 1
        for n in t["shape"]:
            count *= n
        assert begin == at and end - begin == count * sizes[t["dtype"]], name
        at = end
        yield name, (t["dtype"], t["shape"], hashlib.sha256(data[8 + size + begin : 8 + size + end]).hexdigest())
    assert 8 + size + at == len(data)
def directory(path):
    files = sorted(os.listdir(path))
    if files == ["model.safetensors"]:
        return dict(load(path + "/model.safetensors"))
    index = json.load(open(path + "/model.safetensors.index.json"))
    assert sorted(set(index["weight_map"].values())) + ["model.safetensors.index.json"] == files
    found, total = {}, 0
    for name in files[:-1]:
        for tensor, what in load(path + "/" + name):
            assert index["weight_map"][tensor] == name and tensor not in found
            found[tensor] = what
    assert set(found) == set(index["weight_map"])
    return found
try:
    from safetensors import safe_open
except ImportError:
    safe_open = None
def own(path):
    for name in sorted(os.listdir(path)):
        if safe_open and name.endswith(".safetensors"):
            with safe_open(path + "/" + name, framework="np") as f:
                sorted(f.keys())
    return directory(path)
all = [own(path) for path in sys.argv[1:]]
assert all[0] and all.count(all[0]) == len(all), "different contents"
for name in sorted(all[0]):
    print(name, *all[0][name][:2])
EOF

ok "a point of one rank" "$LOCKSTEP" ckpt export --hf "$TAP/one" "$TAP/whole" --json
is "is exported" "$(json '[a[k] for k in ("step", "tensors", "left_out", "files")]')" "[2, 6, 0, 1]"
ok "as one file" python3 "$TAP/read.py" "$TAP/whole"
is "with true types and global shapes" "$(grep -v '^model.half' "$TAP/out" | tr '\n' ';')" \
    'model.big U16 [5000, 256];model.empty F32 [0, 256];model.scale F8_E4M3 [513, 256];model.weight F32 [3072, 256];optim.step I64 [];'
is "nothing else is left there" "$(ls -A "$TAP/whole")" 'model.safetensors'

ranks() # DIR WORD...: three ranks at once
{
    where=$1 pids=
    shift
    for rank in 0 1 2; do
        "$train" "$where" rank=$rank world=3 job=5 steps=2 mb=3 wait=verified "$@" >"$TAP/rank-$rank" 2>&1 &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || return 1
    done
}
ok "three ranks save slices of replicas" ranks "$TAP/slices" slices=1
ok "three ranks save shards" ranks "$TAP/shards" shards=1
ok "slices are put together" "$LOCKSTEP" ckpt export --hf --step 2 "$TAP/slices" "$TAP/slices.hf"
ok "shards are put together, into files of 1 MB" "$LOCKSTEP" ckpt export "$TAP/shards" "$TAP/shards.hf" --hf --shard-size 0.001
ok "all are the same tensors" python3 "$TAP/read.py" "$TAP/whole" "$TAP/slices.hf" "$TAP/shards.hf"
ok "in several files" test -e "$TAP/shards.hf/model.safetensors.index.json"
ok "another step" "$LOCKSTEP" ckpt export --hf --step 1 "$TAP/one" "$TAP/older"
exits 1 "has other contents" python3 "$TAP/read.py" "$TAP/whole" "$TAP/older"
ok "a prefix chooses and is removed" "$LOCKSTEP" ckpt export --hf --prefix model. "$TAP/one" "$TAP/model" --json
is "and the others are counted" "$(json '[a[k] for k in ("tensors", "left_out")]')" "[5, 1]"
python3 "$TAP/read.py" "$TAP/model" >"$TAP/out"
has "names are those of the model" '^weight F32' "$TAP/out"
ok "a dry run writes nothing" "$LOCKSTEP" ckpt export --hf --dry-run "$TAP/one"

# What is each rank's own, such as statistics: a person says whose.
for rank in 0 1; do
    [ $rank = 0 ] && differs=1 || differs=9
    "$train" "$TAP/own" rank=$rank world=2 job=5 steps=1 mb=3 differs=$differs wait=verified >"$TAP/rank-$rank" 2>&1 &
done
wait
exits 1 "ranks with different contents" "$LOCKSTEP" ckpt export --hf "$TAP/own" "$TAP/mixed"
has "are named, and so is the way out" 'tensor model.weight: ranks 0 and 1 saved different contents .*; --rank 0 takes' "$TAP/err"
ok "the contents of rank 1" "$LOCKSTEP" ckpt export --hf --rank 1 "$TAP/own" "$TAP/of-1"
ok "are those that a rank without the difference saves" python3 "$TAP/read.py" "$TAP/older" "$TAP/of-1"
ok "the contents of rank 0" "$LOCKSTEP" ckpt export --hf "$TAP/own" "$TAP/of-0" --rank 0
exits 1 "are others" python3 "$TAP/read.py" "$TAP/older" "$TAP/of-0"
exits 1 "a rank that is not there is no way out" "$LOCKSTEP" ckpt export --hf --rank 2 "$TAP/own" "$TAP/of-2"

exits 3 "what exists is not touched" "$LOCKSTEP" ckpt export --hf "$TAP/one" "$TAP/model"
exits 3 "no tensor has the prefix" "$LOCKSTEP" ckpt export --hf --prefix nothing. "$TAP/one" "$TAP/none"
exits 3 "no such step" "$LOCKSTEP" ckpt export --hf --step 9 "$TAP/one" "$TAP/none"
exits 2 "no form" "$LOCKSTEP" ckpt export "$TAP/one" "$TAP/none"
exits 2 "no place" "$LOCKSTEP" ckpt export --hf "$TAP/one"
python3 -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(2000000); b = f.read(1)[0]; f.seek(-1, 1); f.write(bytes([b ^ 4]))' "$TAP/one/step-2/rank-00000.safetensors"
exits 1 "damage" "$LOCKSTEP" ckpt export --hf --step 2 "$TAP/one" "$TAP/none"
has "is named" 'step 2: .*wrong checksum of bytes 0 to ' "$TAP/err"
is "and leaves nothing behind" "$(cd "$TAP" && ls -Ad none .none* 2>/dev/null)" ''
ok "the point is marked" test -e "$TAP/one/step-2/REFUSED"
ok "and the older one is exported" "$LOCKSTEP" ckpt export --hf "$TAP/one" "$TAP/fallback"
has "the newer one is named with the reason" 'step 2 is not used: .*wrong checksum' "$TAP/err"
ok "with its contents" python3 "$TAP/read.py" "$TAP/older" "$TAP/fallback"

# A node's own directory holds only a part of the job.
"$train" "$TAP/node" rank=0 world=2 group=1 job=5 steps=1 mb=1 restore=none wait=verified >/dev/null 2>&1
exits 1 "a part of the ranks is no model" "$LOCKSTEP" ckpt export --hf "$TAP/node" "$TAP/none"
has "and the reason says so" '1 of 2 ranks' "$TAP/err"
done_testing
