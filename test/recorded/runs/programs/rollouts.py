# SPDX-License-Identifier: Apache-2.0
"""rollouts - reinforcement learning: each rank plays for a while, outside of everything that torch sees, then all update together.

How long a rank plays differs from step to step, as episodes do.
"""
import random
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job


def play(args, policy, chance):
    """One rollout: the environment takes time, the policy is asked now and then."""
    with torch.no_grad():
        for _ in range(5):
            policy(torch.randn(8, 64))
            time.sleep(args.play_ms / 5e3 * (1 + args.differs * (chance.random() - 0.5)))
    return job.batch(args)


def main():
    args = job.options(play_ms=40.0, differs=0.2, updates=2)
    rank, fault = job.start(args)
    policy = job.Model(args)
    policy.fault = fault
    model = DistributedDataParallel(policy)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    chance = random.Random(rank)
    for step in range(args.steps):
        fault.begin(step)
        fault.loader()
        x, y = play(args, policy.body, chance)
        for _ in range(args.updates):
            optimizer.zero_grad()
            fault.loss(torch.nn.functional.cross_entropy(model(x), y)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        fault.weights(policy)
        reward = torch.tensor([chance.random()])
        if not fault.skips_collective():
            dist.all_reduce(reward)


main()
