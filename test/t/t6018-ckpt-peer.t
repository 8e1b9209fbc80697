#!/bin/sh
# A copy of each point on another node: complete or not there, resumed after kills, and never waited for by a save.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
train=$BUILD/test/ckpt-train
export LOCKSTEP_STATE="$TAP/state" no_proxy='*'
"$train" "$TAP/own" steps=2 mb=5 wait=verified >"$TAP/out" 2>&1 || skip_all "nothing can be saved here"

json() # EXPRESSION: of the answer on $TAP/out
{
    python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}
serve() # DIR ADDRESS:PORT: in the background; leaves $server, $url and $pin
{
    rm -f "$TAP/serve"
    "$LOCKSTEP" ckpt serve "$1" --listen "$2" >"$TAP/serve" 2>"$TAP/serve.err" &
    server=$!
    await test -s "$TAP/serve" || skip_all "the server does not start: $(cat "$TAP/serve.err")"
    url=$(sed -n 's/.* at \([^,]*\),.*/\1/p' "$TAP/serve")
    pin=$(sed -n 's/.*, pin //p' "$TAP/serve")
}
ended() { kill -9 "$1" 2>/dev/null; wait "$1" 2>/dev/null; } # PID
follower=
trap 'kill $server $follower 2>/dev/null' EXIT
serve "$TAP/own" 127.0.0.1:0

ok "a node copies the newest point of another" "$LOCKSTEP" ckpt mirror "$url" "$TAP/peer" --json
is "all of it" "$(json '(a["step"], a["state"], a["moved_bytes"] > 5000000, a["kept_bytes"])')" "(2, 'copied', True, 0)"
ok "which is right there" "$LOCKSTEP" ckpt verify "$TAP/peer"
ok "and can be restored" "$train" "$TAP/peer" mb=5 restore=only
has "as it was saved" '^restored 2$' "$TAP/out"
ok "the node that gave it" "$LOCKSTEP" ckpt ls "$TAP/own" --json
is "knows of the copy" "$(json '[p["tiers"] for p in a["points"]]')" "[['local', 'peer'], ['local']]"
ok "once more" "$LOCKSTEP" ckpt mirror "$url" "$TAP/peer" --json
is "moves nothing" "$(json '(a["state"], a["moved_bytes"])')" "('was there', 0)"
ok "an older point by its step" "$LOCKSTEP" ckpt mirror "$url" "$TAP/peer" --step 1
rm -rf "$TAP/peer/step-1"
ok "a dry run" "$LOCKSTEP" ckpt mirror --dry-run "$url" "$TAP/peer"
is "lists what is there" "$(sed 's/:.*//' "$TAP/out" | tr '\n' ',')" 'step 2  was there,step 1  would be copied,'
is "and copies nothing" "$(ls "$TAP/peer")" step-2
ok "also without a directory" "$LOCKSTEP" ckpt mirror --dry-run --step 1 "$url" "$TAP/none" --json
is "which it does not make" "$(json '(a["step"], a["state"])') $([ -e "$TAP/none" ] && echo there)" "(1, 'would be copied') "
exits 3 "a step that is not there" "$LOCKSTEP" ckpt mirror "$url" "$TAP/peer" --step 77

# Who may ask, and for what.
token=$TAP/state/tokens/ckpt.token
is "the token is for its user alone" "$(stat -c %a "$token")" 600
cat "$TAP/serve" "$TAP/serve.err" >"$TAP/said"
lacks "and never printed" "$(cat "$token")" "$TAP/said"
printf 'lst_%064d\n' 0 >"$TAP/other"
chmod 600 "$TAP/other"
exits 3 "another token" "$LOCKSTEP" ckpt mirror "$url" "$TAP/no" --token-file "$TAP/other"
has "is refused" 'the node refuses the token' "$TAP/err"
exits 3 "no token" "$LOCKSTEP" ckpt mirror "$url" "$TAP/no" --token-file "$TAP/nowhere"
exits 2 "clear text to another machine" "$LOCKSTEP" ckpt mirror http://192.0.2.1:1 "$TAP/no"
exits 2 "no address" "$LOCKSTEP" ckpt mirror here "$TAP/no"
curlrc=$(bearer "$token")
point=$(curl -s -K "$curlrc" "$url/v1/points" | sed -n '1s/ /-/p')
code() { curl -s -o /dev/null -w '%{http_code}' --path-as-is -K "$curlrc" "$url/v1/points$1"; }
is "files of a point are given" "$(code "/$point/COMMIT?at=0&bytes=10")" 200
for path in "/$point/PEER?at=0&bytes=10" "/$point/../COMMIT?at=0&bytes=10" "/$point/rank-0.manifest?at=0&bytes=1" \
    "/2-0000000000000001/COMMIT?at=0&bytes=10" "/$point/rank-00009.safetensors?at=0&bytes=1" "/9$point/copied"; do
    is "nothing else: $path" "$(code "$path")" 404
done
is "no more than 4 MiB at once" "$(code "/$point/COMMIT?at=0&bytes=4194305")" 400

# The copy is killed in the middle, and goes on.
"$train" "$TAP/own" steps=3 mb=96 restore=none wait=verified >"$TAP/out" 2>&1
rm -rf "$TAP/own/step-1" "$TAP/own/step-2"
cat >"$TAP/kill.py" <<'END'
import glob, os, signal, subprocess, sys, time
mirror = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
while mirror.poll() is None:
    if any(os.path.getsize(name) > 20 << 20 for name in glob.glob(sys.argv[1] + "/.step-3.*/*.tmp")):
        mirror.send_signal(signal.SIGKILL)
        mirror.wait()
        sys.exit(0)
    time.sleep(0.001)  # looks again: the file grows while nobody waits for it
sys.exit(1)
END
ok "a copy is killed" python3 "$TAP/kill.py" "$TAP/cut" "$LOCKSTEP" ckpt mirror "$url" "$TAP/cut"
exits 3 "there is no point" "$LOCKSTEP" ckpt verify "$TAP/cut"
ok "the next one" "$LOCKSTEP" ckpt mirror "$url" "$TAP/cut" --json
is "goes on where it was" "$(json '(a["state"], a["kept_bytes"] >= 20 << 20)')" "('copied', True)"
ok "to a point that is right" "$LOCKSTEP" ckpt verify "$TAP/cut"

# It follows a training, of which the node that gives the points fails.
port=${url##*:}
"$LOCKSTEP" ckpt mirror --follow --interval 50ms --keep 1 "$url" "$TAP/cut" >"$TAP/follow" 2>"$TAP/follow.err" &
follower=$!
ok "a training may wait until a point is elsewhere" "$train" "$TAP/own" steps=4 mb=96 wait=replicated
has "and does" '^replicated 4$' "$TAP/out"
has "when it is there" '^step 4  copied' "$TAP/follow"
ended $server
ok "without the server a save is as it was" "$train" "$TAP/own" steps=5 mb=96 wait=verified
has "written and verified" '^verified 5$' "$TAP/out"
serve "$TAP/own" "127.0.0.1:$port"
ok "the copy is made when the server is back" await test -d "$TAP/cut/step-5"
only_newest() { [ "$(ls "$TAP/cut" | tr '\n' ' ')" = 'step-5 ' ]; }
ok "and older ones go after it is verified" await only_newest
ended $follower

# Damage is not copied.
python3 -c '
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-9, 2); byte = f.read(1); f.seek(-9, 2); f.write(bytes([byte[0] ^ 1]))' "$TAP/own/step-5/rank-00000.safetensors"
exits 1 "a damaged point" "$LOCKSTEP" ckpt mirror "$url" "$TAP/bad"
has "is named" 'step 5: .*wrong checksum' "$TAP/err"
exits 3 "and not committed" "$LOCKSTEP" ckpt verify "$TAP/bad"
ended $server

# A node that lost its disk gets its points back.  On another address than loopback there is TLS.
address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 '^[0-9.]*$')
if [ -n "$address" ]; then
    serve "$TAP/cut" "$address:0"
    is "another address is served by TLS" "${url%%:*}" https
    exits 3 "a certificate that nobody knows" "$LOCKSTEP" ckpt mirror "$url" "$TAP/back"
    exits 2 "clear text" "$LOCKSTEP" ckpt mirror "http:${url#https:}" "$TAP/back"
    ok "the pin that was printed" "$LOCKSTEP" ckpt mirror "$url" "$TAP/back" --pin "$pin"
    ok "brings the point back" "$train" "$TAP/back" mb=96 restore=only
    has "for a restart" '^restored 5$' "$TAP/out"
else
    skip "another address is served by TLS" "this machine has no other address"
fi
done_testing
