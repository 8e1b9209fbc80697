# SPDX-License-Identifier: Apache-2.0
"""How many FLOP the model takes in a step, and what lockstep report makes of it."""
import json
import os
import subprocess

from tap import LOCKSTEP, PYTHON, equal, main, need_torch, test

TRAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16, bias=False))
frozen = torch.nn.Linear(8, 8)
class Data(torch.utils.data.IterableDataset):
    def __iter__(self):
        for _ in range(8 * 40):
            yield torch.randint(0, 16, (32,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for ids in torch.utils.data.DataLoader(Data(), batch_size=8):
    optimizer.zero_grad()
    model(ids).square().mean().backward()
    optimizer.step()
"""
FLOP = 6 * (16 * 8 + 8 * 16) * 8 * 32  # parameters that an optimizer has, tokens of a batch


def report(place, *words):
    done = subprocess.run([LOCKSTEP, "report", "--json", *words, "flop"], capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, LOCKSTEP_STATE=place + "/state"))
    return json.loads(done.stdout)


@test
def the_ranks_report_what_their_model_takes(place):
    with open(place + "/train.py", "w") as file:
        file.write(TRAIN)
    done = subprocess.run([LOCKSTEP, "run", "-q", "-n", "2", "--name", "flop", "--", PYTHON, place + "/train.py"], capture_output=True,
                          text=True, env=dict(os.environ, LOCKSTEP_STATE=place + "/state"), timeout=100)
    equal(done.returncode, 0, done.stderr[-2000:])
    card = report(place, "--peak-tflops", "1e-6")  # a million a second
    given = report(place, "--peak-tflops", "1e-6", "--flop-per-token", str(FLOP / (8 * 32)))
    assert card["mfu"] > 0, card
    assert abs(card["mfu"] / given["mfu"] - 1) < 0.05, (card["mfu"], given["mfu"])  # nearly all steps have both
    assert "ranks reported" in card["mfu_formula"] and "tokens x FLOP per token" in given["mfu_formula"]
    equal(card["mfu_peak"], "1e-06 TFLOP/s, as given")
    none = report(place)
    equal((none["mfu"], none["mfu_peak"], "peak" in none["unknown"]["mfu"]), (None, None, True))
    equal((none["device_computing"], none["devices"]), (None, []))


need_torch()
main()
