#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records real flight-recorder dumps of NCCL: four ranks on one GPU, one fault a folder, all faults at the same time.

usage: flight_faults.py [--culprit N] OUT.tar [CASE...]  about 50 s; prints one JSON object, and packs the dumps and logs
       flight_faults.py --rank FOLDER CASE RANK          one rank

Rank 2 is the culprit, or rank N: `hang` sleeps, `device` starts a kernel that does not end and goes on enqueueing, `stopped` stops itself
(SIGSTOP) and leaves no dump, `gil` keeps the GIL, `skipped` leaves out one all-reduce, `order` enters its pair before the
other ranks do.  `healthy`: everybody waits for the host's next step.  Ranks may share a GPU when NCCL takes them for several
hosts (NCCL_HOSTID).  With FLIGHT_TIMING=1 the recorder also knows which ops the device has started."""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

WORLD, STEPS, LIMIT_S, DEADLINE_S = 4, 3, 12, 58
CULPRIT = int(os.environ.get("FLIGHT_CULPRIT", "2"))
CASES = ("hang", "device", "stopped", "gil", "skipped", "order", "healthy")


def step(torch, dist, pair, small):
    dist.all_reduce(small)
    dist.all_gather_into_tensor(torch.empty(1024 * WORLD, device="cuda"), small)
    dist.all_reduce(small, group=pair)


def fault(case, torch, dist, pair, small):
    """What the culprit does instead of, or before, its next step."""
    if case == "hang":
        time.sleep(1000)
    if case == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if case == "gil":
        ctypes.PyDLL("libc.so.6").sleep(1000)  # PyDLL keeps the GIL
    if case == "device":
        torch.cuda._sleep(1 << 40)
    if case == "order":
        dist.all_reduce(small, group=pair)


def rank_main(folder, case, rank):
    import datetime
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    limit = datetime.timedelta(seconds=LIMIT_S if case != "healthy" else 300)
    dist.init_process_group("nccl", timeout=limit, device_id=torch.device("cuda:0"))
    pair = [dist.new_group(group, timeout=limit) for group in ([0, 1], [2, 3])][rank // 2]
    small = torch.ones(1024, device="cuda")
    for _ in range(STEPS):
        step(torch, dist, pair, small)
    torch.cuda.synchronize()
    if case == "healthy":
        with open(f"{folder}/nccl_trace_rank_{rank}", "wb") as file:
            file.write(torch._C._distributed_c10d._dump_nccl_trace())
        time.sleep(1000)
    if rank == CULPRIT:
        fault(case, torch, dist, pair, small)
    if not (case == "skipped" and rank == CULPRIT):
        dist.all_reduce(small)
    for _ in range(2):
        step(torch, dist, pair, small)
    torch.cuda.synchronize()
    time.sleep(1000)


def start(folder, case):
    os.makedirs(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(WORLD):
        prefix = f"{folder}/nccl_trace_rank_"
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                   NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_DEBUG="WARN", NCCL_MAX_NCHANNELS="2",
                   TORCH_NCCL_TRACE_BUFFER_SIZE="64", TORCH_FR_BUFFER_SIZE="64", TORCH_NCCL_DUMP_ON_TIMEOUT="1",
                   TORCH_NCCL_DEBUG_INFO_TEMP_FILE=prefix, TORCH_FR_DUMP_TEMP_FILE=prefix,
                   TORCH_NCCL_ENABLE_TIMING=os.environ.get("FLIGHT_TIMING", "0"),
                   TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="60", OMP_NUM_THREADS="1")
        with open(f"{folder}/rank{rank}.log", "wb") as log:
            ranks.append(subprocess.Popen([sys.executable, __file__, "--rank", folder, case, str(rank)], env=env,
                                          stdout=log, stderr=subprocess.STDOUT))
    return ranks


def wanted(case):
    return [rank for rank in range(WORLD) if not (case == "stopped" and rank == CULPRIT)]


def complete(folder, case):
    return all(os.path.exists(f"{folder}/nccl_trace_rank_{rank}") for rank in wanted(case))


def main():
    global CULPRIT
    if sys.argv[1] == "--rank":
        rank_main(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    if sys.argv[1] == "--culprit":
        CULPRIT = int(sys.argv[2])
        os.environ["FLIGHT_CULPRIT"] = sys.argv[2]
        del sys.argv[1:3]
    began = time.time()
    cases = sys.argv[2:] or CASES
    with tempfile.TemporaryDirectory() as out:
        running = {case: start(f"{out}/{case}", case) for case in cases}
        try:
            while time.time() - began < DEADLINE_S and not all(complete(f"{out}/{case}", case) for case in cases):
                time.sleep(0.5)
            time.sleep(2)  # the last dump, and what the watchdogs say behind it
        finally:
            for ranks in running.values():
                for rank in ranks:
                    rank.kill()
            for ranks in running.values():
                for rank in ranks:
                    rank.wait()
        with tarfile.open(sys.argv[1], "w") as tar:
            tar.add(out, "flight")
        print(json.dumps({"seconds": round(time.time() - began, 1), "tar_bytes": os.path.getsize(sys.argv[1]),
                          "cases": {case: {"complete": complete(f"{out}/{case}", case),
                                           "dumps": sorted(name for name in os.listdir(f"{out}/{case}") if "trace" in name)}
                                    for case in cases}}))


main()
