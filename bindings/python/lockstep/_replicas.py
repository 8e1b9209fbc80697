# SPDX-License-Identifier: Apache-2.0
"""Digests of the parameters, a part every step: replicas that differ are found within a round.

The digest is a sum over the elements of their bits, each times an odd number of its own, modulo 2^64:
whole numbers, so the order in which a device adds them does not matter, and one element that differs
always shows.  Part n mod parts is digested at the end of step n, where the parameters live.  On a
device no thread waits for it: it is reported once it has arrived in host memory, in one of the next LATEST
steps, or not at all; the part's number says of which step it is.
"""
import collections
import weakref

from ._probe import complain, probe
from ._steps import steps

ON_HOST = 1 << 15  # elements a step: a tenth of a millisecond
ON_DEVICE = 1 << 20
LATEST = 8  # steps after which a digest that has not arrived is forgotten
LEAST_PARTS = 2 * LATEST
_GOLDEN = -7046029254386353131  # 2^64 / golden ratio, as a signed number


def _flat(torch, parameter):
    """All elements in a row, without a copy where memory is dense."""
    tensor = parameter.detach()
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(-1)


def _is_dense(torch, parameter):
    tensor = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    return tensor.layout == torch.strided and not tensor.is_quantized and tensor.device.type != "meta"


class Replicas:
    def __init__(self, torch, parameters, elements=None):
        self.torch = torch
        self.parameters = [weakref.ref(parameter) for parameter in parameters
                           if _is_dense(torch, parameter)]
        first = self.parameters[0]() if self.parameters else None
        self.device = None if first is None else first.device
        if elements is None:
            elements = ON_HOST if self.device is None or self.device.type == "cpu" else ON_DEVICE
        self.elements = max(1, int(elements))
        self.parts = self._divide()
        self.weights = None
        self.pending = collections.deque()  # (part, step, numbers in host memory, event)

    def _divide(self):
        """By part: [(parameter, from, to)]."""
        sizes = [_flat(self.torch, reference()).numel() for reference in self.parameters]
        total = sum(sizes)
        each = max(1, min(self.elements, -(-total // LEAST_PARTS)))
        self.elements = each
        parts, room = [[]], each
        for number, size in enumerate(sizes):
            at = 0
            while at < size:
                if room == 0:
                    parts.append([])
                    room = each
                take = min(room, size - at)
                parts[-1].append((number, at, at + take))
                at += take
                room -= take
        parts += [[] for _ in range(LEAST_PARTS - len(parts))]
        return parts

    def _weigh(self, device):
        """Odd numbers, the same everywhere, made of their places; two for each element."""
        torch = self.torch
        place = torch.arange(1, 2 * self.elements + 1, dtype=torch.int64, device=device)
        for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
            place = place * _GOLDEN
            place = (place ^ (place >> shift)) * factor
        return (place | 1).view(2, self.elements)

    def _bits(self, tensor):
        torch = self.torch
        if tensor.dtype == torch.bool:
            return tensor
        kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        return tensor.view(kinds[tensor.element_size()])

    def _digest(self, pieces):
        """Two whole numbers, on the device of the parameters."""
        torch = self.torch
        sums, at = None, 0
        for number, begin, end in pieces:
            parameter = self.parameters[number]()
            if parameter is None:
                return None
            bits = self._bits(_flat(torch, parameter)[begin:end]).to(torch.int64)
            if self.weights is None or self.weights.device != bits.device:
                self.weights = self._weigh(bits.device)
            one = (self.weights[:, at:at + end - begin] * bits).sum(1)
            sums = one if sums is None else sums + one
            at += end - begin
        return sums

    def at_end(self):
        """Called at the end of every step."""
        try:
            self._tell()
            self._take()
        except Exception as error:  # of ours; the training goes on
            complain("replicas are no longer watched: %r" % (error,))
            stop()

    def _take(self):
        torch, step = self.torch, steps.number
        part = step % len(self.parts)
        if not probe.handle or not self.parts[part]:
            return
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return
        with torch.no_grad():
            sums = self._digest(self.parts[part])
            if sums is None:  # the model is gone
                stop()
            elif sums.device.type == "cpu":
                self._put(part, sums)
            elif sums.device.type == "cuda":
                self._send(part, step, sums)

    def _send(self, part, step, sums):
        torch = self.torch
        numbers = torch.empty(2, dtype=torch.int64, pin_memory=True)
        numbers.copy_(sums, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(sums.device))
        self.pending.append((part, step, numbers, event))

    def _tell(self):
        """One step has room for one digest: the oldest that has arrived."""
        while self.pending and self.pending[0][1] + LATEST < steps.number:
            self.pending.popleft()
        if self.pending and self.pending[0][3].query():
            part, _, numbers, _ = self.pending.popleft()
            self._put(part, numbers)

    def _put(self, part, numbers):
        low, high = (number & (1 << 64) - 1 for number in numbers.tolist())
        probe.digest(part, len(self.parts), low, high)


_watch = None


def watching():
    return _watch is not None


def stop():
    global _watch
    if _watch is not None and _watch.at_end in steps.at_end:
        steps.at_end.remove(_watch.at_end)
    _watch = None


def watch(model, elements=None):
    global _watch
    import torch
    stop()
    parameters = model.parameters() if hasattr(model, "parameters") else model
    _watch = Replicas(torch, list(parameters), elements)
    if any(_watch.parts):
        steps.at_end.append(_watch.at_end)
