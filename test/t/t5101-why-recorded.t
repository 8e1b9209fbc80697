#!/bin/sh
# Flight-recorder dumps that PyTorch and NCCL really wrote, on a GPU: test/recorded/README.md says how.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
dumps=$SOURCE/test/recorded/nccl-2.28

said() # CASE KIND RANKS CAUSE
{
    exits 1 "$1: a verdict" "$LOCKSTEP" why --json "$dumps/$1"
    python3 -c '
import json, sys
said = [[v["kind"], json.dumps(v["ranks"]), v["cause"]] for v in json.load(open(sys.argv[1]))["verdicts"]]
print(said)
sys.exit(said != [sys.argv[2:]])' "$TAP/out" "$2" "$3" "$4" >"$TAP/err" 2>&1
    tap_result $? "$1: $2, ranks $3, $4"
}

command -v python3 >/dev/null || skip_all "no python3"
said absent hang "[1]" "stopped entering collectives"
said size desync "[0, 1]" "different sizes"
said order desync "[0, 1]" "two groups entered in opposite order"
exits 0 "nothing wrong in a healthy job" "$LOCKSTEP" why "$dumps/healthy"
exits 0 "nor in one of a single rank" "$LOCKSTEP" why "$dumps/alone"
done_testing
