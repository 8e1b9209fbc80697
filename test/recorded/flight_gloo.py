#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records real flight-recorder dumps of gloo: four ranks on one machine, one case a folder.

usage: flight_gloo.py OUT [CASE...]     all cases, each in processes of its own
       flight_gloo.py OUT CASE RANK PORT  one rank

Rank 2 is the culprit.  Needs torch 2.8 or later, whose recorder knows gloo.  The dumps are fetched from the worker server of each
rank, as torch.distributed.debug does; a rank that is stopped does not answer and leaves none."""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

WORLD, CULPRIT, STEPS = 4, 2, 3
CASES = ("hang", "stopped", "gil", "skipped", "order", "healthy")


def step(torch, dist, pair):
    dist.all_reduce(torch.ones(64))
    dist.all_gather([torch.empty(16) for _ in range(WORLD)], torch.ones(16))
    dist.all_reduce(torch.ones(8), group=pair)


def fault(case, rank, torch, dist, pair):
    me = rank == CULPRIT
    if case == "hang" and me:
        time.sleep(1000)
    if case == "stopped" and me:
        os.kill(os.getpid(), signal.SIGSTOP)
    if case == "gil" and me:
        ctypes.PyDLL("libc.so.6").sleep(1000)  # PyDLL keeps the GIL
    if case == "order" and me:
        dist.all_reduce(torch.ones(8), group=pair)
    if not (case == "skipped" and me):
        dist.all_reduce(torch.ones(64))
    step(torch, dist, pair)


def rank_main(out, case, rank, port):
    import datetime
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import _WorkerServer

    store = dist.TCPStore("127.0.0.1", port, WORLD, rank == 0, use_libuv=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD, timeout=datetime.timedelta(seconds=1000))
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    server = _WorkerServer("127.0.0.1", 0)
    with open(f"{out}/{case}/port{rank}", "w", encoding="ascii") as file:
        file.write(str(server.port))
    for _ in range(STEPS):
        step(torch, dist, pairs[rank // 2])
    open(f"{out}/{case}/ready{rank}", "w", encoding="ascii").close()
    if case != "healthy":
        fault(case, rank, torch, dist, pairs[rank // 2])
    time.sleep(1000)


def fetch(port, what):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/handler/{what}", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read()


def record(out, case):
    folder = f"{out}/{case}"
    os.makedirs(folder, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = dict(os.environ, TORCH_FR_BUFFER_SIZE="200", USE_LIBUV="0",
               GLOO_SOCKET_IFNAME="lo")
    ranks = [subprocess.Popen([sys.executable, __file__, out, case, str(rank), str(port)], env=env) for rank in range(WORLD)]
    try:
        while not all(os.path.exists(f"{folder}/ready{rank}") for rank in range(WORLD)):
            time.sleep(0.2)
        time.sleep(4)  # until everybody waits
        for rank in range(WORLD):
            with open(f"{folder}/port{rank}", encoding="ascii") as file:
                where = int(file.read())
            for what, name in (("fr_trace_json", "fr_trace_rank_{}.json"), ("dump_traceback", "stack_rank{}.txt")):
                try:
                    text = fetch(where, what)
                except OSError as error:
                    print(case, "rank", rank, what, error)
                    continue
                if what == "fr_trace_json":
                    json.loads(text)
                with open(f"{folder}/{name.format(rank)}", "wb") as file:
                    file.write(text)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        for rank in range(WORLD):
            for name in (f"ready{rank}", f"port{rank}"):
                if os.path.exists(f"{folder}/{name}"):
                    os.unlink(f"{folder}/{name}")


def main():
    out = sys.argv[1]
    if len(sys.argv) == 5 and sys.argv[3].isdigit():
        rank_main(out, sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    for case in sys.argv[2:] or CASES:
        record(out, case)


main()
