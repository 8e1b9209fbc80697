#!/bin/sh
# Checkpoints: what was saved comes back byte for byte, in the same process layout or another one.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
dir=$TAP/ckpt

ok "a program saves" "$train" "$dir" steps=3
has "to the disk" '^written 3$' "$TAP/out"
ok "the next one continues" "$train" "$dir" steps=5 wait=verified
has "where the first ended" '^restored 3$' "$TAP/out"
has "and waits until the file was read back" '^verified 5$' "$TAP/out"
ok "an older point can be chosen" "$train" "$dir" at=2 restore=only
has "and is the one that is restored" '^restored 2$' "$TAP/out"

json() # EXPRESSION: of the answer on $TAP/out
{
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
ok "verify reads all of them" "$LOCKSTEP" ckpt verify "$dir" --json
is "newest first" "$(json '[p["step"] for p in a["points"]]')" "[5, 4, 3, 2, 1]"
is "and all are right" "$(json '{p["state"] for p in a["points"]}')" "{'verified'}"
is "without a reason" "$(json '{p["why"] for p in a["points"]}')" "{None}"
ok "ls lists them" "$LOCKSTEP" ckpt ls --json "$dir"
is "with these names" "$(json 'sorted(a["points"][0])')" "['bytes', 'ranks', 'state', 'step', 'tiers']"
is "and what they hold" "$(json '[a["points"][0][k] for k in ("step", "ranks", "state", "tiers")]')" \
    "[5, 1, 'verified', ['local']]"

mkdir "$TAP/empty"
exits 3 "no point: verify cannot tell" "$LOCKSTEP" ckpt verify "$TAP/empty" --json
is "and lists none" "$(json 'a')" "{'points': []}"
exits 3 "no directory: neither" "$LOCKSTEP" ckpt verify "$TAP/nowhere"
exits 2 "verify needs a directory" "$LOCKSTEP" ckpt verify
exits 2 "and only one" "$LOCKSTEP" ckpt verify "$dir" "$dir"

# The files are what readers of safetensors know.
cat >"$TAP/read.py" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8 : 8 + size])
meta = head.pop("__metadata__")
assert all(isinstance(v, str) for v in meta.values())
spans = sorted(v["data_offsets"] for v in head.values())
assert spans[0][0] == 0 and all(a[1] == b[0] for a, b in zip(spans, spans[1:]))
assert 8 + size + spans[-1][1] == len(data) and (8 + size) % 4096 == 0
assert json.loads(meta["DCP_SHARDING_INFO"])["model.weight"] == {"saved_offsets": [0, 0]}
assert json.loads(meta["LOCKSTEP_DTYPES"]) == {"model.scale": "F8_E4M3", "model.big": "U16"}
assert head['model.half "quoted"']["dtype"] == "BF16" and head["optim.step"]["shape"] == []
assert head["model.big"] == {"dtype": "U8", "shape": [5000, 256, 2], "data_offsets": head["model.big"]["data_offsets"]}
END
ok "the file is a safetensors file" python3 "$TAP/read.py" "$dir/step-5/rank-00000.safetensors"

# Several ranks: slices of replicas, shards, and another number of ranks afterwards.
ranks() # DIR WORLD WORD...: all ranks at once; 0 if all end well
{
    where=$1 world=$2 all=0
    shift 2
    rank=0 pids=
    while [ $rank -lt "$world" ]; do
        "$train" "$where" rank=$rank world="$world" "$@" >"$TAP/out.$rank" 2>&1 &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    for pid in $pids; do wait "$pid" || all=1; done
    cat "$TAP"/out.?
    return $all
}
for how in slices shards; do
    ok "4 ranks save $how" ranks "$TAP/$how" 4 $how=1 job=7 steps=2
    is "and all commit" "$(grep -c '^written 2$' "$TAP/out")" 4
    ok "3 ranks restore them" ranks "$TAP/$how" 3 $how=1 job=8 restore=only
    is "byte for byte" "$(grep -c '^restored 2$' "$TAP/out")" 3
    ok "one rank restores them, and goes on" "$train" "$TAP/$how" steps=3
    ok "verify reads the files of all ranks" "$LOCKSTEP" ckpt verify "$TAP/$how"
done
size() { du -cb "$1"/*.safetensors | tail -n 1 | cut -f 1; }
[ "$(size "$TAP/slices/step-2")" -lt $(($(size "$TAP/slices/step-3") * 11 / 10)) ]
tap_result $? "four ranks with equal tensors take the room of one"

# A rank is missing: not committed, and no reader sees it.
timeout 3 "$train" "$TAP/missing" rank=0 world=2 job=9 steps=1 restore=none >"$TAP/out" 2>&1
exits 3 "a point without all its ranks is none" "$LOCKSTEP" ckpt verify "$TAP/missing"
has "which verify says" 'not committed; 1 ranks have saved' "$TAP/err"
ok "ls" "$LOCKSTEP" ckpt ls "$TAP/missing"
has "shows it as incomplete" 'incomplete' "$TAP/out"
ok "nor is it restored" "$train" "$TAP/missing" restore=only
has "by anybody" '^none: ' "$TAP/out"
is "no file of it looks like a checkpoint of others" "$(cd "$TAP/missing" && ls)" ""

# Retention: only what newer verified points replace.
ok "a program that keeps two" "$train" "$TAP/keep" steps=6 keep=2 wait=verified
"$LOCKSTEP" ckpt ls "$TAP/keep" --json >"$TAP/out"
is "has two, or one more that was being verified" "$(json '[p["step"] for p in a["points"]][:2]')" "[6, 5]"
[ "$(json 'len(a["points"])')" -le 3 ]
tap_result $? "and no more"
rm -f "$dir/step-5/rank-00000.verified"
ok "gc" "$LOCKSTEP" ckpt gc --keep 1 --every 2 --dry-run "$dir" --json
is "counts verified points only" "$(json '[p["step"] for p in a["points"] if p["removed"]]')" "[3, 1]"
ok "and removes them" "$LOCKSTEP" ckpt gc --keep 1 --every 2 "$dir"
is "from the disk" "$(ls "$dir" | tr '\n' ' ')" "step-2 step-4 step-5 "
ok "the others are right" "$LOCKSTEP" ckpt verify "$dir"
done_testing
