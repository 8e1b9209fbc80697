# SPDX-License-Identifier: Apache-2.0
"""sharded - fully_shard (FSDP2) across replicas, DTensor's tensor parallelism in pairs; --single: fully_shard over all ranks."""
import job

args = job.options(layers=2, inner=20, batch=8)
pair = (args.bad,) if args.single else (args.bad // 2 * 2, args.bad // 2 * 2 + 1)
torch, device, fault = job.start(args, group_of_bad=pair)
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

part = job.pieces(torch)
model = part.Transformer(args).to(device)
example = job.random_ids(torch, args, device)
fault.calibrate(lambda: model(example))
if args.single:
    mesh = init_device_mesh(args.device, (job.WORLD,), mesh_dim_names=("dp",))
    across, replica = mesh, job.RANK
else:
    mesh = init_device_mesh(args.device, (job.WORLD // 2, 2), mesh_dim_names=("dp", "tp"))
    across, replica = mesh["dp"], job.RANK // 2
    plan = {"attention." + name: ColwiseParallel() for name in "qkv"}
    plan.update({"attention.out": RowwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()})
    for layer in model.layers:
        # The inner layer works on the rank's own part of the width.
        hidden = 2 * args.width // 2
        layer.mlp.inner = torch.nn.Linear(hidden, hidden, device=device)
        parallelize_module(layer, mesh["tp"], plan)
for layer in model.layers:
    layer.register_forward_pre_hook(lambda *_: fault.device_work(1 / args.layers))
    fully_shard(layer, mesh=across)
fully_shard(model, mesh=across)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
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
