# SPDX-License-Identifier: Apache-2.0
"""gan - two models in turns, each with its own optimizer: two backward passes a step, the second twice as often."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import job


def main():
    args = job.options(turns=2)
    rank, fault = job.start(args)
    critic, maker = job.Model(args), torch.nn.Sequential(torch.nn.Linear(16, args.width), torch.nn.Tanh(), torch.nn.Linear(args.width, 64))
    critic.fault = fault
    critic_ddp, maker_ddp = DistributedDataParallel(critic), DistributedDataParallel(maker)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    maker_opt = torch.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for step in range(args.steps):
        fault.begin(step)
        for _ in range(args.turns):
            fault.loader()
            real = job.batch(args)[0]
            with torch.no_grad():
                fake = maker(torch.randn(args.batch, 16))
            critic_opt.zero_grad()
            scores = critic_ddp(torch.cat([real, fake]))[:, 0]
            wanted = torch.cat([torch.ones(args.batch), torch.zeros(args.batch)])
            fault.loss(torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted)).backward()
            critic_opt.step()
        maker_opt.zero_grad()
        for parameter in critic.parameters():
            parameter.requires_grad_(False)
        loss = torch.nn.functional.softplus(-critic(maker_ddp(torch.randn(args.batch, 16)))[:, 0]).mean()
        loss.backward()
        maker_opt.step()
        for parameter in critic.parameters():
            parameter.requires_grad_(True)
        fault.weights(critic)
        if step % 20 == 0 and not fault.skips_collective():
            dist.all_reduce(loss.detach().clone())


main()
