#!/bin/sh
# What NCCL's RAS says of a rank that does not advance is evidence in its verdict.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

# Answers as RAS of NCCL 2.28.9 does, about the process that is stopped.
cat >"$TAP/ras.py" <<'END'
import os, socket, sys
def stopped(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = open("/proc/%s/stat" % pid).read()
            environment = open("/proc/%s/environ" % pid, "rb").read()
        except OSError:
            continue
        if text.rsplit(")", 1)[1].split()[0] == "T" and name.encode() in environment:
            return pid
    return "1"
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    asked = b""
    while b"STATUS\n" not in asked:
        asked += client.recv(100) or b"STATUS\n"
    client.sendall(("SERVER PROTOCOL 2\nOK\nErrors\n======\n\n#0-0 (33c30bd37f087937) INCOMPLETE\n"
                    "  Missing communicator data from 1 rank\n"
                    "  Rank 2 -- GPU 0 managed by process %s on node 127.0.0.1\n\n" % stopped(sys.argv[1])).encode())
    client.close()
END
python3 "$TAP/ras.py" "mark-$$" >"$TAP/port" &
ras=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -s "$TAP/port" ] || sleep 0.2; done # looks again
NCCL_RAS_ADDR=localhost:$(cat "$TAP/port") RAS_TEST=mark-$$ timeout -k 5 90 "$LOCKSTEP" demo --json --ranks 4 --steps 400 --step-ms 30 \
    --name ras --fault stop:rank=2,step=30 >"$TAP/demo" 2>&1
kill $ras
"$LOCKSTEP" why ras >"$TAP/out"
has "the stopped rank is named" '^hang: rank 2 ' "$TAP/out"
has "with what RAS says of it" "rank 2: does not answer \(NCCL's RAS\)" "$TAP/out"
NCCL_RAS_ADDR=localhost:$(cat "$TAP/port") timeout -k 5 90 "$LOCKSTEP" demo --json --ranks 2 --steps 300 --step-ms 30 \
    --name silent --fault stop:rank=1,step=30 >"$TAP/demo" 2>&1
"$LOCKSTEP" why silent >"$TAP/out"
has "without an answer the verdict is the same" '^hang: rank 1 ' "$TAP/out"
lacks "and nothing is said of RAS" "RAS" "$TAP/out"
done_testing
