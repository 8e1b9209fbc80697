#!/bin/sh
# lockstep fabric: plan, workers, tokens, what is refused; four workers on addresses of the loopback.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}

# The plan, without workers.
cat >"$TAP/topology" <<'END'
SwitchName=leaf1 Nodes=n[0001-0032]
SwitchName=leaf2 Nodes=n[0033-0064]
SwitchName=leaf3 Nodes=n[0065-0096] # the last one
SwitchName=spine Switches=leaf[1-3]
END
ok "a plan" "$LOCKSTEP" fabric test --nodes 'n[0001-0096]' --topology "$TAP/topology" --dry-run --json
is "its leafs are those of the topology" "$(value 'd["leafs"]')" 3
is "it has at most 24 rounds" "$(value 'd["rounds"] <= 24')" True
is "and a volume" "$(value 'd["bytes"] > 0 and d["seconds"] > 0')" True
ok "the full tournament" "$LOCKSTEP" fabric test --nodes 'n[0001-0096]' --topology "$TAP/topology" --dry-run --json --full
is "has every pair" "$(value 'd["pairs"]')" 4560
ok "2048 nodes" "$LOCKSTEP" fabric test --nodes 'n[0001-2048]' --dry-run --json
is "have at most 24 rounds, too" "$(value 'd["rounds"]')" 24

# What is refused.
exits 2 "nodes must be given" "$LOCKSTEP" fabric test
exits 2 "at least two" "$LOCKSTEP" fabric test --nodes one --dry-run
exits 2 "none of them twice" "$LOCKSTEP" fabric test --nodes a,b,a --dry-run
exits 2 "a list must be one" "$LOCKSTEP" fabric test --nodes 'n[1-' --dry-run
exits 2 "a job is a number" "$LOCKSTEP" fabric test --slurm '1;id' --dry-run
echo "SwitchName=a Nodes=n[1" >"$TAP/bad"
exits 2 "a topology with an error" "$LOCKSTEP" fabric test --nodes a,b --topology "$TAP/bad" --dry-run
has "is named by its line" "bad: line 1: " "$TAP/err"
exits 2 "without a token nobody is asked" "$LOCKSTEP" fabric test --nodes 127.0.0.1:1,127.0.0.2:1
exits 2 "a rail is an address" "$LOCKSTEP" fabric serve --rail eth0 --listen 127.0.0.1:0

# The nodes of a job of Slurm, from a squeue of our own.
mkdir "$TAP/bin"
printf '#!/bin/sh\n[ "$3" = 42 ] && echo "n[0001-0008]"\n' >"$TAP/bin/squeue"
chmod +x "$TAP/bin/squeue"
slurm() { PATH=$TAP/bin:$PATH "$LOCKSTEP" fabric test --slurm "$1" --dry-run --json; }
ok "the nodes of a job" slurm 42
is "are those of squeue" "$(value 'd["nodes"]')" 8
exits 2 "a job without nodes" slurm 43
rm "$TAP/bin/squeue"
PATH=$TAP/bin exits 2 "a machine without squeue" "$LOCKSTEP" fabric test --slurm 42 --dry-run
has "is told so" "squeue not found" "$TAP/err"
exits 2 "a rate that cannot be reached is refused" "$LOCKSTEP" fabric test --nodes a,b --rate 10 --expect 20 --dry-run
has "with the reason" "no transfer can reach it" "$TAP/err"
exits 2 "too many nodes are bad usage" "$LOCKSTEP" fabric test --nodes 'n[000001-999999]' --dry-run
ok "one pair" "$LOCKSTEP" fabric test --nodes a,b --dry-run
has "is one" ": 1 round of disjoint pairs, 1 pair, " "$TAP/out"

# Workers.  The kernel chooses the ports.
workers=
serve() # NUMBER OPTION...: leaves its address in $at
{
    number=$1
    shift
    "$LOCKSTEP" fabric serve --listen "127.0.0.$number:0" "$@" >"$TAP/worker$number" 2>&1 &
    workers="$workers $!"
    await grep -q serving "$TAP/worker$number"
    at=$(sed -n 's/^serving fabric tests at \([0-9.:]*\),.*/\1/p' "$TAP/worker$number")
}
trap 'kill $workers 2>/dev/null; rm -rf "$TAP"' EXIT
nodes=
for number in 1 2 3 4; do
    serve "$number"
    nodes=${nodes:+$nodes,}$at
done
fabric() { timeout 100 "$LOCKSTEP" fabric test --rate 0.02 --time 100ms "$@"; }
fabric --nodes "$nodes" --json >"$TAP/out" 2>"$TAP/err"
case $? in 0 | 1 | 3) true ;; *) false ;; esac # a busy machine may look slow
tap_result $? "the test ends with an answer"
is "the names that others use" "$(value '[k in d for k in ("pairs", "named")]')" "[True, True]"
is "of each pair as well" "$(value '[k in d["pairs"][0] for k in ("from", "to", "gbps", "latency_us")]')" "[True, True, True, True]"
is "every pair was measured, both ways" "$(value 'len({(p["from"], p["to"]) for p in d["pairs"]})')" 12
is "with a rate" "$(value 'min(p["gbps"] for p in d["pairs"]) > 0')" True
is "and a latency" "$(value 'min(p["latency_us"] for p in d["pairs"]) > 0')" True
is "the rate is bounded" "$(value 'max(p["gbps"] for p in d["pairs"]) < 0.2')" True
is "nobody was skipped" "$(value 'd["skipped"]')" "[]"
fabric --nodes "$nodes" >"$TAP/out" 2>"$TAP/err"
has "the plan comes first" "^4 nodes, leaf switches not known: 3 rounds of disjoint pairs, 6 pairs, about [0-9]+ s, at most [0-9.]+ GB" "$TAP/out"
has "and the answer last" "transfers measured: " "$TAP/out"
has "with the rates" "^median [0-9.e-]+ Gbit/s and [0-9.]+ us; slowest " "$TAP/out"

# A worker sends less than it is asked to, a node that does not answer is skipped, as is one with another token.
serve 5 --rate 0.001
fabric --nodes "${nodes%%,*},$at" --json >"$TAP/out" 2>"$TAP/err"
is "a worker keeps its own limit" "$(value 'max(p["gbps"] for p in d["pairs"] if p["from"].startswith("127.0.0.5")) < 0.012')" True
serve 6 --volume 0.00001
fabric --nodes "${nodes%%,*},$at" --json >"$TAP/out" 2>"$TAP/err"
is "also of the volume" "$(value 'd["skipped"][0]["why"]')" "the limits of this node allow no further transfer"
fabric --nodes "$nodes,127.0.0.9:1" --json >"$TAP/out" 2>"$TAP/err"
is "a node without a worker is skipped" "$(value '[s["node"] for s in d["skipped"]]')" "['127.0.0.9:1']"
is "and the others are measured" "$(value 'len(d["pairs"])')" 12
printf 'lst_%064d\n' 7 >"$TAP/other"
chmod 600 "$TAP/other"
exits 3 "with another token nothing is known" fabric --nodes "$nodes" --json --token-file "$TAP/other"
is "and the reason is given" "$(value '{s["why"] for s in d["skipped"]}')" "{'it does not have the same token'}"
chmod 644 "$TAP/other"
exits 2 "a token that others may read is refused" fabric --nodes "$nodes" --token-file "$TAP/other"

# perftest: programs of our own that print its tables.
mkdir "$TAP/perftest"
cat >"$TAP/perftest/ib_write_bw" <<'END'
#!/bin/sh
for last; do :; done
case $last in *.*.*.*) ;; *) exec sleep 60 ;; esac # a server
echo " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
echo " 65536      5000             98.02              97.93              0.186788"
END
cat >"$TAP/perftest/ib_write_lat" <<'END'
#!/bin/sh
for last; do :; done
case $last in *.*.*.*) ;; *) exec sleep 60 ;; esac # a server
echo " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
echo " 2       1000          1.01           3.81         1.25               1.07"
END
chmod +x "$TAP/perftest/ib_write_bw" "$TAP/perftest/ib_write_lat"
serve 7 --perftest "$TAP/perftest"
seven=$at
serve 8 --perftest "$TAP/perftest"
ok "perftest" fabric --with perftest --time 1s --nodes "$seven,$at" --json
is "has its rates" "$(value '[round(p["gbps"], 2) for p in d["pairs"]]')" "[97.93, 97.93]"
is "and its latencies" "$(value '[p["latency_us"] for p in d["pairs"]]')" "[1.25, 1.25]"
cp "$TAP/perftest/ib_write_bw" "$TAP/right"
{ cat "$TAP/right"; echo 'exec sleep 600 >/dev/null 2>&1'; } >"$TAP/perftest/ib_write_bw"
ok "a program that closes its output and does not end is ended" fabric --with perftest --time 1s --nodes "$seven,$at" --json
is "its rates count" "$(value '[round(p["gbps"], 2) for p in d["pairs"]]')" "[97.93, 97.93]"
printf '#!/bin/sh\necho "Failed to modify QP"\nexit 1\n' >"$TAP/perftest/ib_write_bw"
exits 3 "a program without a result says nothing about the network" fabric --with perftest --time 1s --timeout 100ms --nodes "$seven,$at" --json
is "so no pair is there" "$(value 'd["pairs"], d["named"]')" "([], [])"
exits 3 "a worker runs perftest only if it may" fabric --with perftest --time 1s --nodes "$nodes" --json
has "and says why not" "does not run perftest" "$TAP/out"

# Bytes of anybody: the worker hangs up.
cat >"$TAP/strange.py" <<'END'
import socket, struct, sys
host, port = sys.argv[1].split(":")
def talk(data):
    with socket.create_connection((host, int(port)), 20) as s:
        s.settimeout(30)
        hello = s.recv(4096)
        assert hello[:4] == b"LSFT", hello
        s.sendall(data if data else hello)
        try:
            return s.recv(4096)
        except ConnectionResetError:
            return b""
assert talk(b"GET / HTTP/1.0\r\n\r\n") == b""
assert talk(struct.pack("<IHHII", 0x5446534C, 1, 2, 0xFFFFFFFF, 0)) == b""
assert talk(struct.pack("<IHHII", 0x5446534C, 1, 2, 64, 0) + bytes(64 + 32)) == b""
assert talk(b"") == b""  # its own greeting
END
ok "bytes of somebody without the token are not answered" python3 "$TAP/strange.py" "${nodes%%,*}"

# Connections that say nothing keep nobody away.
cat >"$TAP/quiet.py" <<'END'
import signal, socket, sys
host, port = sys.argv[1].split(":")
held = [socket.create_connection((host, int(port)), 20) for _ in range(100)]
open(sys.argv[2], "w").close()
signal.pause()
END
python3 "$TAP/quiet.py" "${nodes%%,*}" "$TAP/held" &
quiet=$!
await test -e "$TAP/held"
fabric --nodes "$nodes" --json >"$TAP/out" 2>"$TAP/err"
is "a test is served beside silent connections" "$(value 'd["skipped"]')" "[]"
kill $quiet
wait $quiet 2>/dev/null

# Two tests at once: the second is told so.
"$LOCKSTEP" fabric test --rate 0.02 --time 10s --nodes "$nodes" --json >"$TAP/first" 2>&1 &
first=$!
busy() { fabric --nodes "$nodes" --json >"$TAP/out" 2>"$TAP/err"; grep -q "another test is using this node" "$TAP/out"; }
await busy
tap_result $? "one test at a time"
kill $first
wait $first 2>/dev/null
free() { fabric --nodes "$nodes" --json >"$TAP/out" 2>"$TAP/err"; ! grep -q "another test is using this node" "$TAP/out"; }
await free
tap_result $? "a test that was ended frees its workers"

kill $workers
for worker in $workers; do
    wait "$worker" || echo "worker $worker: $?"
done >"$TAP/out"
is "workers end by a signal, without an error" "$(cat "$TAP/out")" ""
workers=
done_testing
