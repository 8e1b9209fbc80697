#!/bin/sh
# ckpt push and pull: points to and from an object store that checks every signature, complete or not at all.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
python=/usr/bin/python3
"$python" -c 'import botocore.auth' 2>/dev/null || skip_all "botocore is not installed (python3-botocore)"
"$train" "$TAP/ckpt" steps=2 mb=40 wait=verified >"$TAP/out" 2>&1 || skip_all "nothing can be saved here"
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY='secret/+=word' AWS_REGION=test-1 no_proxy='*'
unset AWS_SESSION_TOKEN AWS_ENDPOINT_URL
store=$TAP/store
mkdir "$store"

json() # EXPRESSION: of the answer on $TAP/out
{
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
server_start()
{
    rm -f "$store/port"
    "$python" "$SOURCE/test/t/s3-server.py" "$store" 2>"$TAP/server.err" &
    server=$!
    await test -s "$store/port" || skip_all "the store does not start: $(tail -n 1 "$TAP/server.err")"
    export AWS_ENDPOINT_URL="http://127.0.0.1:$(cat "$store/port")"
}
parts() # how many parts were sent, each once counted as often as it was sent
{
    grep -c '^PUT .*partNumber=' "$store/log"
}
server_start
trap 'kill $server 2>/dev/null' EXIT
url='s3://bucket/team a/run+1'

ok "a dry run" "$LOCKSTEP" ckpt push --dry-run "$TAP/ckpt" "$url"
is "sends nothing" "$(grep -c -v ^HEAD "$store/log")" 0
ok "a point is sent" "$LOCKSTEP" ckpt push "$TAP/ckpt" "$url" --part-size 8 --json
is "the newest one" "$(json '[(p["step"], p["state"], p["kept_bytes"]) for p in a["points"]]')" "[(2, 'sent', 0)]"
is "in parts, under names with blanks and signs" "$(parts) $(ls "$store/objects" | grep -c 'team%20a%2Frun%2B1%2Fstep-2-')" '6 3'
is "COMMIT is the last object" "$(grep '^PUT' "$store/log" | tail -n 1 | grep -c COMMIT)" 1
: >"$store/log"
ok "once more" "$LOCKSTEP" ckpt push "$TAP/ckpt" "$url" --part-size 8 --json
is "sends nothing" "$(json 'a["points"][0]["state"]') $(grep -c -v ^HEAD "$store/log")" 'was there 0'

# A secret that is wrong, and a store that is not there.
AWS_SECRET_ACCESS_KEY=other "$LOCKSTEP" ckpt push --step 1 "$TAP/ckpt" "$url" >"$TAP/out" 2>"$TAP/err"
is "a wrong secret is refused" "$? $(grep -c 403 "$TAP/err")" '3 1'
is "the secret is never printed" "$(cat "$TAP/out" "$TAP/err" | grep -c -e 'secret/+=word' -e other)" 0
AWS_SECRET_ACCESS_KEY='' "$LOCKSTEP" ckpt push "$TAP/ckpt" "$url" >"$TAP/out" 2>"$TAP/err"
is "no secret is bad usage" "$? $(grep -c AWS_SECRET_ACCESS_KEY "$TAP/err")" '2 1'
exits 2 "clear text to another machine" "$LOCKSTEP" ckpt push --endpoint http://192.0.2.1 "$TAP/ckpt" "$url"
exits 2 "no bucket" "$LOCKSTEP" ckpt push "$TAP/ckpt" /tmp

# A store that is busy, and one that dies in the middle.
: >"$store/log"
echo 2 >"$store/fail"
echo 4 >"$store/die"
"$LOCKSTEP" ckpt push --step 1 "$TAP/ckpt" "$url" --part-size 8 >"$TAP/out" 2>"$TAP/err" &
push=$!
await sh -c "! kill -0 $server 2>/dev/null"
kill -9 $push 2>/dev/null
wait $push 2>/dev/null
is "killed in the middle: two tries were refused, three parts arrived" "$(parts)" 6
is "no COMMIT" "$(ls "$store/objects" | grep -c 'step-1-.*COMMIT')" 0
server_start
mkdir "$TAP/back"
exits 3 "an incomplete point is not there" "$LOCKSTEP" ckpt pull --step 1 "$url" "$TAP/back"
: >"$store/log"
ok "the next push goes on" "$LOCKSTEP" ckpt push --all "$TAP/ckpt" "$url" --part-size 8 --json
is "with the parts that are missing" "$(parts) $(json '[(p["step"], p["state"]) for p in a["points"]]')" "3 [(1, 'sent'), (2, 'was there')]"

# Back again.
ok "a dry run of pull" "$LOCKSTEP" ckpt pull --dry-run "$url" "$TAP/nowhere" --json
is "lists what is complete" "$(json '[(p["step"], p["state"], p["moved_bytes"]) for p in a["points"]]')" \
    "[(2, 'would be received', 0), (1, 'would be received', 0)]"
is "and makes nothing" "$([ -e "$TAP/nowhere" ] && echo there)" ""
exits 3 "of a step that is not there" "$LOCKSTEP" ckpt pull --dry-run --step 9 "$url" "$TAP/nowhere"
ok "the newest point comes back" "$LOCKSTEP" ckpt pull "$url" "$TAP/back" --part-size 16 --json
is "all of it" "$(json '[(p["step"], p["state"], p["kept_bytes"]) for p in a["points"]]')" "[(2, 'received', 0)]"
ok "an older one, too" "$LOCKSTEP" ckpt pull --step 1 "$url" "$TAP/back"
ok "both are right" "$LOCKSTEP" ckpt verify "$TAP/back"
ok "and are what was saved" "$train" "$TAP/back" mb=40 restore=only
has "by the newest step" '^restored 2$' "$TAP/out"

# Damage in the store, and an interrupted pull.
rm -r "$TAP/back"
name=$(ls "$store/objects" | grep 'step-2-.*safetensors')
cp "$store/objects/$name" "$TAP/whole"
"$python" -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(30000000); b = f.read(1)[0]; f.seek(-1, 1); f.write(bytes([b ^ 4]))' "$store/objects/$name"
exits 1 "damage in the store is found" "$LOCKSTEP" ckpt pull "$url" "$TAP/back" --part-size 8
has "and named" 'as received: wrong checksum of bytes [0-9]* to ' "$TAP/err"
is "nothing is committed" "$(ls "$TAP/back")" ''
mv "$TAP/whole" "$store/objects/$name"
ok "the next pull goes on" "$LOCKSTEP" ckpt pull "$url" "$TAP/back" --part-size 8 --json
ok "where it was" test "$(json 'a["points"][0]["kept_bytes"]')" -ge 8388608
ok "and the point is right" "$LOCKSTEP" ckpt verify "$TAP/back"

# Damage on the disk never reaches the store.
rm -r "$store/objects"
mkdir "$store/objects"
"$python" -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(30000000); b = f.read(1)[0]; f.seek(-1, 1); f.write(bytes([b ^ 4]))' "$TAP/ckpt/step-2/rank-00000.safetensors"
exits 1 "a damaged point is not sent" "$LOCKSTEP" ckpt push "$TAP/ckpt" "$url" --part-size 8
is "no object of it" "$(ls "$store/objects")" ''
ok "and it is marked" test -e "$TAP/ckpt/step-2/REFUSED"
done_testing
