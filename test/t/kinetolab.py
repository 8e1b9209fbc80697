# SPDX-License-Identifier: Apache-2.0
"""kinetolab.py DIR SLOW [gz] - profiler traces of four ranks; rank SLOW (-1: none) computes twice as long.

Each rank has a clock of its own.  A step is three times five kernels and an all-reduce, as a job on GPUs leaves them.
"""
import gzip
import json
import random
import sys

out, slow, packed = sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3
dice = random.Random(4)
traces = {rank: [] for rank in range(4)}
clock = {rank: dice.randrange(10**9) for rank in range(4)}
now = {rank: 1000.0 for rank in range(4)}
for step in range(6):
    began = dict(now)
    for layer in range(3):
        arrive = {}
        for rank in range(4):
            for kernel in range(5):
                took = (200 if rank == slow else 100) * dice.uniform(0.97, 1.03)
                traces[rank].append({"ph": "X", "cat": "kernel", "name": "sm90_gemm", "pid": 0, "tid": 7,
                                     "ts": clock[rank] + now[rank], "dur": took, "args": {"stream": 7}})
                now[rank] += took + 1
            arrive[rank] = now[rank]
        end = max(arrive.values()) + 50
        for rank in range(4):
            traces[rank].append({
                "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)",
                "pid": 0, "tid": 20, "ts": clock[rank] + arrive[rank], "dur": end - arrive[rank],
                "args": {"stream": 20, "Collective name": "allreduce", "Process Group Name": "0",
                         "Process Group Ranks": "[0, 1, 2, 3]", "dtype": "BFloat16"}})
            now[rank] = end
    for rank in range(4):
        traces[rank].append({"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{step}", "pid": 0,
                             "tid": 7, "ts": clock[rank] + began[rank], "dur": now[rank] - began[rank], "args": {}})
for rank, events in traces.items():
    trace = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 4},
             "traceEvents": events + [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}]}
    name = f"{out}/host_{1000 + rank}.{rank}.pt.trace.json"
    if packed:
        with gzip.open(name + ".gz", "wt") as file:
            json.dump(trace, file)
    else:
        with open(name, "w") as file:
            json.dump(trace, file)
