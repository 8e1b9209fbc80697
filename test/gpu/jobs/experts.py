# SPDX-License-Identifier: Apache-2.0
"""experts - a mixture of experts: tokens travel by all-to-all in pairs of ranks, with sizes that the routers choose."""
import job

args = job.options(layers=2, inner=12, batch=8)
torch, device, fault = job.start(args)
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

mesh = init_device_mesh(args.device, (job.WORLD // 2, 2), mesh_dim_names=("dp", "ep"))
dp, ep, place = mesh.get_group("dp"), mesh.get_group("ep"), mesh.get_local_rank("ep")
part = job.pieces(torch)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, there, here):
        ctx.sizes = there, here
        out = x.new_empty(sum(here), x.shape[1])
        dist.all_to_all_single(out, x.contiguous(), here, there, group=ep)
        return out

    @staticmethod
    def backward(ctx, gradient):
        there, here = ctx.sizes
        out = gradient.new_empty(sum(there), gradient.shape[1])
        dist.all_to_all_single(out, gradient.contiguous(), there, here, group=ep)
        return out, None, None


class Experts(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.router, self.expert = torch.nn.Linear(args.width, 2), part.Mlp(args.width, 2 * args.width, args.inner)

    def forward(self, x):
        shape, x = x.shape, x.flatten(0, 1)
        scores = self.router(x).softmax(-1)
        # Tokens take turns; with the fault, more of those of one pair go to one expert.
        order = torch.arange(x.shape[0], device=x.device) % 8
        skewed = fault.kind == "tokens" and fault.step >= args.at and job.RANK // 2 == args.bad // 2
        first = 4 if not skewed else 7 if args.bad % 2 == 0 else 1
        choice = (order >= first).long()
        sorted_places = torch.argsort(choice, stable=True)
        there = torch.bincount(choice, minlength=2)
        here = torch.empty_like(there)
        dist.all_to_all_single(here, there, group=ep)
        there, here = there.tolist(), here.tolist()
        arrived = Exchange.apply(x[sorted_places], there, here)
        returned = Exchange.apply(self.expert(arrived), here, there)
        out = torch.empty_like(x).index_copy(0, sorted_places, returned)
        return (out * scores.gather(1, choice[:, None])).view(shape)


class Layer(part.Layer):
    def __init__(self, args):
        super().__init__(args, mlp=Experts(args))

    def forward(self, x):
        fault.device_work(1 / args.layers)
        return super().forward(x)


model = part.Transformer(args, Layer).to(device)
plain = part.Transformer(args).to(device)
example = job.random_ids(torch, args, device)
fault.calibrate(lambda: plain(example))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
experts = [p for name, p in model.named_parameters() if ".expert." in name]
shared = [p for name, p in model.named_parameters() if ".expert." not in name]


def step(batches):
    optimizer.zero_grad()
    ids = next(batches)["input_ids"].to(device)
    loss = fault.loss(job.next_word_loss(torch, model(ids), ids))
    loss.backward()
    job.reduce_gradients(fault, experts, dp, job.WORLD // 2)
    job.reduce_gradients(fault, shared, None, job.WORLD)
    optimizer.step()
    return loss.detach()


job.train(torch, args, fault, job.loader(torch, args, fault, job.RANK), step)
