#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records real flight-recorder dumps and NCCL logs: two ranks on one GPU, one case a folder.

usage: flight_record.py OUT            all cases, each in processes of its own
       flight_record.py OUT CASE RANK  one rank

Two ranks may share a GPU when NCCL takes them for two hosts (NCCL_HOSTID)."""
import os
import subprocess
import sys
import time

CASES = ("absent", "size", "order", "healthy", "alone", "fewer")


def rank_main(out, case, rank):
    import datetime
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    limit = datetime.timedelta(seconds=8)
    dist.init_process_group("nccl", timeout=limit, device_id=torch.device("cuda:0"))
    pair = dist.new_group(list(range(dist.get_world_size())), timeout=limit) if case == "order" else None
    small, large = torch.ones(1024, device="cuda"), torch.ones(1 << 20, device="cuda")
    for _ in range(3):
        dist.all_reduce(small)
        dist.all_gather_into_tensor(torch.empty(1024 * dist.get_world_size(), device="cuda"), small)
        if pair:
            dist.all_reduce(small, group=pair)
    torch.cuda.synchronize()
    if case in ("healthy", "alone", "fewer"):
        dist.all_reduce(large)
        torch.cuda.synchronize()
        text = torch._C._distributed_c10d._dump_nccl_trace()
        with open(f"{out}/{case}/nccl_trace_rank_{rank}", "wb") as file:
            file.write(text)
        dist.destroy_process_group()
        return
    if case == "absent" and rank == 1:
        time.sleep(40)  # never comes
    if case == "order":
        first, second = (None, pair) if rank == 0 else (pair, None)
        dist.all_reduce(large, group=first)
        dist.all_reduce(large, group=second)
    else:
        dist.all_reduce(large if case == "size" and rank == 1 else small)
    torch.cuda.synchronize()
    time.sleep(40)


def main():
    out = sys.argv[1]
    if len(sys.argv) == 4:
        return rank_main(out, sys.argv[2], int(sys.argv[3]))
    for number, case in enumerate(CASES):
        os.makedirs(f"{out}/{case}", exist_ok=True)
        world = 1 if case == "alone" else 2
        ranks = []
        for rank in range(world):
            env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(29600 + number), NCCL_HOSTID=f"host{rank}",
                       TORCH_NCCL_TRACE_BUFFER_SIZE="64", TORCH_FR_BUFFER_SIZE="64",
                       TORCH_NCCL_DUMP_ON_TIMEOUT="1",
                       TORCH_NCCL_DEBUG_INFO_TEMP_FILE=f"{out}/{case}/nccl_trace_rank_",
                       TORCH_FR_DUMP_TEMP_FILE=f"{out}/{case}/nccl_trace_rank_",
                       TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="15", TORCH_NCCL_ENABLE_TIMING="1",
                       NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,GRAPH,COLL,TUNING,ENV")
            if case == "fewer":
                env.update(NCCL_MAX_NCHANNELS="1", NCCL_ALGO="Ring", NCCL_PROTO="Simple")
            with open(f"{out}/{case}/rank-{rank}.log", "wb") as log:
                ranks.append(subprocess.Popen([sys.executable, __file__, out, case, str(rank)], env=env,
                                              stdout=log, stderr=subprocess.STDOUT))
        until = time.time() + 50
        for process in ranks:
            try:
                process.wait(max(1, until - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
        print(case, [process.wait() for process in ranks], sorted(os.listdir(f"{out}/{case}")), flush=True)


if __name__ == "__main__":
    main()
