# SPDX-License-Identifier: Apache-2.0
"""What torch 1.13 does not have: device meshes and distributed checkpoints."""
import sys

from tap import equal, main, need_torch, test
from twice import twice

HEAD = """
import os, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
"""
TAIL = """
dist.barrier()
dist.destroy_process_group()
"""


@test
def the_layout_of_a_mesh_is_found(place):
    _, found = twice(place, HEAD + """
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
dist.all_reduce(torch.ones(4), group=mesh.get_group("tp"))
dist.all_reduce(torch.ones(4), group=mesh.get_group("dp"))
""" + TAIL, ranks=4)
    for rank, ring in enumerate(found):
        equal((ring.layout["tp"], ring.layout["dp"]), ((rank % 2, 2), (rank // 2, 2)))
        equal({comm.kind for comm in filter(None, ring.comms)} >= {"tp", "dp"}, True)


@test
def a_distributed_checkpoint_is_a_phase(place):
    _, found = twice(place, HEAD + """
import warnings; warnings.simplefilter("ignore")
import torch.distributed.checkpoint as dcp
net = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
parallel = nn.parallel.DistributedDataParallel(net)
opt = torch.optim.SGD(parallel.parameters(), lr=0.1)
for i in range(3):
    loss = parallel(torch.randn(4, 8)).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    print(loss.detach().numpy().tobytes().hex(), flush=True)
    dcp.save({"net": net.state_dict()}, checkpoint_id=os.path.join(os.environ["HOME"], "saved-%d" % i))
""" + TAIL, ranks=2)
    for ring in found:
        equal(ring.steps(), [0, 1, 2])
        equal(ring.phases().count("checkpoint"), 3)


need_torch()
try:
    import torch.distributed.device_mesh, torch.distributed.checkpoint  # noqa: E401,F401
except ImportError as error:
    print("1..0 # SKIP this torch is too old (%s)" % error)
    sys.exit(0)
main()
