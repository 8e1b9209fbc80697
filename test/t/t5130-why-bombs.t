#!/bin/sh
# Files that unpack to far more than they are: `why` takes a bounded amount of memory, names the file and the limit, and
# reads the others.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"
command -v python3 >/dev/null || skip_all "no python3 here"

mkdir "$TAP/json" "$TAP/many" "$TAP/good"
python3 - "$TAP" <<'END'
import gzip, json, pickle, sys
folder = sys.argv[1]
def pack(name, unit, count, head=b"", tail=b""):
    with gzip.open(folder + "/" + name, "wb", compresslevel=1) as out:
        out.write(head)
        block = unit * (1 << 16)
        for _ in range(count >> 16):
            out.write(block)
        out.write(tail)
pack("json/bomb_values_0.json.gz", b"[],", 40 << 20, b'{"entries":[', b"[]]}")   # 126 MB of text, 1.3 GB of values
pack("json/bomb_pickle_1.pkl.gz", b"N", 64 << 20, b"\x80\x04")
pack("json/bomb_text_3.log.gz", b"nothing to see here, and very much of it\n", 27 << 20)
pack("json/a_bomb_of_notes_4.log.gz", b"n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE\n", 2 << 20)
def dump(seq):
    return {"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
            "pg_status": {}, "entries": [{"frames": [], "record_id": seq, "pg_id": 0, "process_group": ["0", "default_pg"],
            "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq, "profiling_name": "nccl:all_reduce",
            "time_created_ns": 10**18, "input_sizes": [[1]], "input_dtypes": ["Float"], "output_sizes": [[1]],
            "output_dtypes": ["Float"], "state": "scheduled", "is_p2p": False, "retired": False}]}
for rank in range(2):
    for where in ("json", "good"):
        pickle.dump(dump(7 - rank), open("%s/%s/nccl_trace_rank_%d" % (folder, where, rank), "wb"))
END
(ulimit -v 400000 && "$LOCKSTEP" why "$TAP/good") >"$TAP/expected" 2>/dev/null
expected=$?
why() # DIR: with 1.4 GiB of memory in all, for 1 GiB of what is read and the program itself
{
    (ulimit -v 1468006 && "$LOCKSTEP" why "$@") >"$TAP/out" 2>"$TAP/err"
}
why "$TAP/json"
is "a directory with bombs in it is read within the limit" $? $expected
for bomb in bomb_values_0 bomb_pickle_1 bomb_text_3; do
    has "$bomb is named with the limit" "skipped $bomb.*1024 MiB" "$TAP/err"
done
python3 - "$LOCKSTEP" "$TAP/json" >"$TAP/out" 2>"$TAP/err" <<'END'
import json, resource, subprocess, sys
run = subprocess.run([sys.argv[1], "why", "--json", sys.argv[2]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
why = {one["file"]: one["why"] for one in json.loads(run.stdout)["skipped"]}
print("1024 MiB" in why["bomb_values_0.json.gz"] and "1024 MiB" in why["bomb_text_3.log.gz"])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=sys.stderr)
END
is "so it is in JSON" "$(cat "$TAP/out")" True
[ "$(cat "$TAP/err")" -lt 1200 ]
tap_result $? "it took $(cat "$TAP/err") MiB without any limit from outside"
done_testing
