# SPDX-License-Identifier: Apache-2.0
"""The training of `lockstep bench recover`: DistributedDataParallel on gloo, of which a rank is killed once.

It is the same under any launcher, and writes into DIR/events-ATTEMPT-RANK when it has come how far: seconds of the monotonic clock,
which all processes of a machine share.  With a second argument the rank is killed once that file exists.
"""
import os
import signal
import sys
import time

BEGUN = time.monotonic()
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

IMPORTED = time.monotonic()
STEPS, KILL, EVERY, VICTIM = 40, 23, 5, 1


def main(directory, ready=None):
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    saved = os.path.join(directory, "saved.pt")
    with open(os.path.join(directory, "events-%d-%d" % (attempt, rank)), "w", buffering=1) as events:
        def event(name, at=None):
            events.write("%s %.6f\n" % (name, time.monotonic() if at is None else at))

        event("begun", BEGUN)
        event("imported", IMPORTED)
        dist.init_process_group("gloo")
        torch.manual_seed(1)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)))
        optimizer = torch.optim.AdamW(model.parameters())
        event("init")
        first = 0
        if os.path.exists(saved):
            state = torch.load(saved)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            first = state["step"]
        event("loaded-%d" % first)
        for step in range(first, 100000 if attempt == 0 else first + STEPS):
            if attempt == 0 and rank == VICTIM and step >= KILL and (ready is None or os.path.exists(ready)):
                event("killed-%d" % step)
                os.kill(os.getpid(), signal.SIGKILL)
            loss = model(torch.randn(32, 256)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.02)
            if step == first:
                event("stepped")
            if rank == 0 and (step + 1) % EVERY == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1},
                           saved + ".new")
                os.replace(saved + ".new", saved)
        event("ended")


main(*sys.argv[1:])
