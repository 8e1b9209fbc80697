#!/bin/sh
# The bench of checkpoints gives every number by its name; its limits are not judged here, where others use the machine.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
"$LOCKSTEP" bench ckpt --json --bytes 64000000 --rounds 2 --dir "$TAP" >"$TAP/answer" 2>"$TAP/err"
[ $? -lt 2 ]
tap_result $? "it measures"
cat >"$TAP/check.py" <<'END'
import json, sys
answer = json.load(open(sys.argv[1]))
for name in ("stall_gbps memcpy_gbps written_gbps raw_write_gbps verified_gbps restore_gbps raw_read_gbps "
             "cpu_seconds_per_gb stall_ratio written_ratio restore_ratio").split():
    assert isinstance(answer[name], float) and answer[name] > 0, name
assert answer["rounds"] == 2 and answer["bytes"] == 64000000 // 4096 * 4096
assert answer["io"].split(",")[0] in ("io_uring O_DIRECT", "pwrite threads O_DIRECT", "buffered")
END
ok "every number by its name" python3 "$TAP/check.py" "$TAP/answer"
is "and leaves nothing behind" "$(ls "$TAP" | grep bench)" ""
exits 2 "too few bytes are refused" "$LOCKSTEP" bench ckpt --bytes 5
done_testing
