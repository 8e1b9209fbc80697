"""The few things of torch that the hooks ask for, known once torch has been imported."""


def _never():
    return False


grad_enabled = _never
# True while torch.compile traces.  The hooks' functions ask it first: the tracer knows it as a constant
# and so traces the original alone.  Without that our calls would break the graph, or with
# fullgraph=True the program.
compiling = _never
Tensor = ()


def know(torch):
    global grad_enabled, compiling, Tensor
    grad_enabled = torch.is_grad_enabled
    Tensor = torch.Tensor
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _never)
