#!/bin/sh
# A rank that is slow in every fourth step of a real run, and a job that nothing is wrong with.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
. "$SOURCE/test/t/load.sh"

recurring()
{
    timed_ok "a demo" 60 "$LOCKSTEP" demo --json --ranks 4 --steps 76 --step-ms 60 \
        --host-work-ms 1 --checkpoint-every 0 --name recurs --fault gpu-slow:rank=1,factor=2,step=30,every=4 || return
    python3 -c '
import json, sys
said = [v for v in json.load(open(sys.argv[1]))["verdicts"] if v["kind"] == "straggler" and v["layer"] == "gpu"]
sys.exit([v["ranks"] for v in said] != [[1]] or "intermittent" not in said[0]["cause"])' "$TAP/out"
    timed_result $? "it is one verdict, and says that it comes and goes"
    ok "judged again it is the same" "$LOCKSTEP" why --replay recurs
    has "byte for byte" "byte-equal" "$TAP/out"
}
timed recurring
done_testing
