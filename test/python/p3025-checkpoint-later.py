# SPDX-License-Identifier: Apache-2.0
"""What may be copied until the fence: only tensors whose changes torch counts."""
import os
import sys

from tap import BUILD, PACKAGE, equal, main, need_torch, test

os.environ.setdefault("LOCKSTEP_CKPT_LIBRARY", os.path.join(BUILD, "liblockstep-ckpt.so.0"))


def later(place, model, optimizer, given=None):
    """Names of the tensors that may be copied later."""
    import lockstep
    checkpoints = lockstep.Checkpointer(place + "/ckpt")
    try:
        parts = checkpoints._described(model, optimizer if given is None else given, None)[-1]
        return sorted(name for name, part in parts.items() if part.key[-2])
    finally:
        checkpoints.close()


def trained(make):
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
    optimizer = make(torch, model)
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def adam(torch, model):
    return torch.optim.Adam(model.parameters())


@test
def parameters_and_moments_of_an_optimizer_of_torch(place):
    names = later(place, *trained(adam))
    equal([name for name in names if name.startswith("model.")],
          ["model.%d.%s" % (layer, kind) for layer in range(3) for kind in ("bias", "weight")])
    assert any("exp_avg" in name for name in names), names
    assert not any(name.endswith("step") for name in names), names


@test
def parameters_that_it_does_not_train_are_copied_at_once(place):
    names = later(place, *trained(lambda torch, model: torch.optim.Adam(model[2].parameters())))
    equal([name for name in names if name.startswith("model.")], ["model.2.bias", "model.2.weight"])


@test
def nothing_where_changes_leave_no_trace(place):
    import torch

    class Fused(torch.optim.Adam):  # as a package with kernels of its own has it
        pass

    for option in "fused", "capturable":
        model, optimizer = trained(adam)
        optimizer.param_groups[0][option] = True
        equal(later(place, model, optimizer), [], option)
    equal(later(place, *trained(lambda torch, model: Fused(model.parameters()))), [], "a class of another package")
    model, optimizer = trained(adam)
    equal(later(place, model, optimizer, optimizer.state_dict()), [], "state without its optimizer")
    equal(later(place, model, None), [], "no optimizer")


need_torch()
sys.path.insert(0, PACKAGE)
main()
