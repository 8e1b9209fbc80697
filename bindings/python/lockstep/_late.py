# SPDX-License-Identifier: Apache-2.0
"""Losses and gradient norms that lie on a device: copied to host memory behind the step, reported LAG steps later.

No thread waits for the device.  Every rank reports a value at the same distance from its step, so that those of one step
meet in one step again; one that has not arrived by then is not reported.  The distance is reported with it.
"""
from ._probe import complain, probe
from ._steps import steps

LAG = 8  # steps: further ahead of its device a host rarely is
LATE = 6  # values_late of _abi.METRICS, which loads ctypes


class Cuda:
    def __init__(self, torch):
        self.torch = torch

    def memory(self, count):
        return self.torch.empty(count, dtype=self.torch.float32, pin_memory=True)

    def capturing(self):
        return self.torch.cuda.is_current_stream_capturing()

    def after(self, tensor):
        """An event that has happened once all is done that the tensor's stream was given so far."""
        event = self.torch.cuda.Event()
        event.record(self.torch.cuda.current_stream(tensor.device))
        return event


class Late:
    def __init__(self, device=None):
        self.device = device
        self.host = {}  # by metric: a value for each of the newest steps
        self.waiting = {}  # (metric, place): (step, event)

    def take(self, metric, tensor):
        """A scalar on a device; the newest of its step counts."""
        if steps.number is None or tensor.numel() != 1 or not tensor.is_floating_point():
            return
        try:
            self._copy(metric, tensor.detach())
        except Exception as error:  # of ours; the training goes on
            self._give_up(error)

    def _give_up(self, error):
        complain("values on a device are not recorded: %r" % (error,))
        self.take = lambda *_: None
        self.waiting.clear()

    def _copy(self, metric, tensor):
        if self.device is None:
            import torch
            self.device = Cuda(torch)
        if self.device.capturing():
            return
        if metric not in self.host:
            self.host[metric] = self.device.memory(LAG + 1)
        place = steps.number % (LAG + 1)
        self.host[metric][place:place + 1].copy_(tensor.reshape(1), non_blocking=True)
        self.waiting[metric, place] = (steps.number, self.device.after(tensor))
        if self.tell not in steps.at_end:
            steps.at_end.append(self.tell)

    def tell(self):
        """Called at the end of every step, also of one that ends while a graph is captured: asking for an event would break that."""
        try:
            if self.waiting and not self.device.capturing():
                self._tell(steps.number - LAG)
        except Exception as error:
            self._give_up(error)

    def _tell(self, step):
        told = False
        for metric, host in self.host.items():
            place = step % (LAG + 1)
            of, event = self.waiting.pop((metric, place), (None, None))
            if of == step and event.query():
                probe.metric(metric, float(host[place]))
                told = True
        if told:
            probe.metric(LATE, float(LAG))


late = Late()


def is_on_device(value):
    """A tensor whose value only its device has."""
    return getattr(getattr(value, "device", None), "type", "cpu") == "cuda"
