# SPDX-License-Identifier: Apache-2.0
"""pipeline - two stages by torch.distributed.pipelining (1F1B), two replicas of them; gradients travel in one buffer."""
import job

args = job.options(micro=4)
torch, device, fault = job.start(args)
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.pipelining import PipelineStage, Schedule1F1B  # noqa: E402

mesh = init_device_mesh(args.device, (2, job.WORLD // 2), mesh_dim_names=("pp", "dp"))
pp, dp = mesh.get_group("pp"), mesh.get_group("dp")
place, replica = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
part = job.pieces(torch)


class Stage(torch.nn.Module):
    def __init__(self, whole):
        super().__init__()
        half = args.layers // 2
        self.embedding = whole.embedding if place == 0 else None
        self.layers = torch.nn.ModuleList(list(whole.layers)[:half] if place == 0 else list(whole.layers)[half:])
        self.head = whole.head if place == 1 else None

    def forward(self, x):
        fault.device_work(1 / args.micro)
        x = self.embedding(x) if self.embedding is not None else x
        for layer in self.layers:
            x = layer(x)
        return self.head(x) if self.head is not None else x


module = Stage(part.Transformer(args)).to(device)
shape = (args.batch, args.length)
example = job.random_ids(torch, args, device) if place == 0 else torch.randn(*shape, args.width, device=device)
fault.calibrate(lambda: module(example))
stage = PipelineStage(module, place, 2, device, group=pp)
schedule = Schedule1F1B(stage, n_microbatches=args.micro, loss_fn=lambda logits, ids: fault.loss(job.next_word_loss(torch, logits, ids)))
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)


def step(batches):
    optimizer.zero_grad()
    ids = next(batches)["input_ids"].to(device)
    losses = []
    if place == 0:
        schedule.step(ids)
    else:
        schedule.step(target=ids, losses=losses)
    job.reduce_gradients(fault, module.parameters(), dp, job.WORLD // 2)
    optimizer.step()
    if not losses:  # the first stage has none; a host that waits does so here
        return next(module.parameters()).detach().flatten()[0]
    return torch.stack([loss.detach() for loss in losses]).mean()


job.train(torch, args, fault, job.loader(torch, args, fault, replica), step)
