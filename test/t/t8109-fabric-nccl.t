#!/bin/sh
# lockstep fabric test --with nccl: transfers between the GPUs of workers, by scripted drivers whose bytes go over TCP.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

export LD_LIBRARY_PATH="$BUILD/src/device"
export LOCKSTEP_FAKE_DEVICE="$TAP/fake"
export NCCL_SOCKET_IFNAME=lo
usual="cuda.count value 1
nvml.count value 1
cuda.*.multiprocessors value 8
nvml.*.gpu-busy value 0
cuda.*.free value 67108864"

value() # EXPRESSION of d, the answer
{
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$TAP/out" "$1"
}

devices() # RULE: read again at once by the processes that come
{
    printf '%s\n' "$usual" "$@" >"$TAP/fake.new"
    mv "$TAP/fake.new" "$TAP/fake"
}

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
devices
nodes=
for number in 2 3 4; do
    serve "$number" --nccl
    nodes=${nodes:+$nodes,}$at
done
pair=${nodes%,*}
fabric() { timeout 200 "$LOCKSTEP" fabric test --with nccl --rate 0.02 --time 200ms "$@"; }

fabric --nodes "$nodes" --json >"$TAP/out" 2>"$TAP/err"
case $? in 0 | 1 | 3) true ;; *) false ;; esac # a busy machine may look slow
tap_result $? "the test ends with an answer"
is "every pair was measured, both ways" "$(value 'len({(p["from"], p["to"]) for p in d["pairs"]})')" 6
is "with a rate" "$(value 'min(p["gbps"] for p in d["pairs"]) > 0')" True
is "that is bounded" "$(value 'max(p["gbps"] for p in d["pairs"]) < 0.05')" True
is "and a latency" "$(value 'min(p["latency_us"] for p in d["pairs"]) > 0')" True
is "no error and nobody skipped" "$(value '{p["error"] for p in d["pairs"]}, d["skipped"]')" "({None}, [])"

# What a worker does not allow, and what is not there.
serve 5
exits 3 "a worker uses NCCL only if it may" fabric --nodes "${nodes%%,*},$at" --json
has "and says why not" "does not use NCCL; see --nccl" "$TAP/out"
exits 2 "NCCL has one stream" fabric --nodes "$nodes" --streams 2
exits 2 "a tool must be known" fabric --nodes "$nodes" --with rdma
has "the message has all of them" "expected tcp, nccl or perftest" "$TAP/err"

# A GPU that somebody uses is left alone.
devices "nvml.0.processes text 4711 1000"
exits 3 "GPUs in use are not tested" fabric --nodes "$pair" --json
has "the reason names the process" "in use by process 4711" "$TAP/out"
serve 6 --nccl --shared-gpus
six=$at
serve 7 --nccl --shared-gpus
fabric --nodes "$six,$at" --json >"$TAP/out" 2>"$TAP/err"
is "unless the worker allows that" "$(value 'len(d["pairs"])')" 2

# Errors of NCCL and of the driver say nothing about the network; an error of the network does.
devices "nccl.init error 5"
exits 3 "an error of NCCL is no slow link" fabric --nodes "$pair" --json
is "no pair is there" "$(value 'd["pairs"], d["named"]')" "([], [])"
devices "cuda.init error 100"
exits 3 "nor is a driver without GPUs" fabric --nodes "$pair" --json
has "which is told" "GPU" "$TAP/out"
devices "nccl.send error 6"
fabric --nodes "$pair" --json >"$TAP/out" 2>"$TAP/err"
is "a connection that breaks is a dead pair" "$(value '{(p["gbps"], p["state"]) for p in d["pairs"]}')" "{(0.0, 'slow')}"
devices "nccl.bad-byte value 1"
exits 1 "data that is not what was sent" fabric --nodes "$pair" --json
has "is an error of its own" "Bad message" "$TAP/out"

# A driver that hangs costs its limit, and the worker serves the next test.
devices "cuda.init hang"
fabric --nodes "$pair" --json >"$TAP/out" 2>"$TAP/err"
has "a driver that hangs is told" "does not answer" "$TAP/out"
devices
fabric --nodes "$pair" --json >"$TAP/out" 2>"$TAP/err"
is "and the next test is served" "$(value 'len(d["pairs"])')" 2
children() { pgrep -P "$(echo $workers | tr ' ' ',')" >"$TAP/children"; }
nobody() { ! children; }
await nobody
tap_result $? "no process is left"
kill $workers
wait
workers=
done_testing
