# SPDX-License-Identifier: Apache-2.0
"""tensor - tensor parallelism in pairs as Megatron does it (all-reduces in forward and backward), data parallelism across them."""
import job

args = job.options(layers=2, inner=20, batch=8)
replica = job.RANK // 2
torch, device, fault = job.start(args, group_of_bad=(args.bad // 2 * 2, args.bad // 2 * 2 + 1))
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

mesh = init_device_mesh(args.device, (job.WORLD // 2, 2), mesh_dim_names=("dp", "tp"))
dp, tp = mesh.get_group("dp"), mesh.get_group("tp")
part = job.pieces(torch)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=tp)
        return gradient


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        fault.all_reduce(x, tp)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Layer(part.Layer):
    def __init__(self, args):
        super().__init__(args, part.Attention(args.width, 4, 2), part.Mlp(args.width, 2 * args.width, args.inner))

    def forward(self, x):
        fault.device_work(1 / args.layers)
        x = x + Sum.apply(self.attention(Copy.apply(self.first(x))))
        return x + Sum.apply(self.mlp(Copy.apply(self.second(x))))


inner = part.Transformer(args, Layer).to(device)
model = torch.nn.parallel.DistributedDataParallel(inner, process_group=dp, bucket_cap_mb=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
plain = part.Transformer(args).to(device)
example = job.random_ids(torch, args, device)
fault.calibrate(lambda: plain(example))
numbers = job.statistics(torch, device)


def step(batches):
    optimizer.zero_grad()
    ids = next(batches)["input_ids"].to(device)
    loss = fault.loss(job.next_word_loss(torch, model(ids), ids))
    loss.backward()
    optimizer.step()
    fault.all_reduce(numbers)
    return loss.detach()


job.train(torch, args, fault, job.loader(torch, args, fault, replica), step)
