# SPDX-License-Identifier: Apache-2.0
"""Reads a ring as docs/ring-format.md says, and nothing else: a second opinion on the format.

For rings whose writer has ended or rests: a record being written is an error here.
"""
import glob
import os
import re
import struct
from collections import namedtuple

MAGIC = 0x31474E4952534C4B
NONE = (1 << 64) - 1
KINDS = {
    1: "step_begin", 2: "step_end", 3: "phase_begin", 4: "phase_end", 5: "coll_enqueue",
    6: "coll_start", 7: "coll_end", 8: "p2p_enqueue", 9: "p2p_start", 10: "p2p_end", 11: "span",
    12: "metric", 13: "digest", 14: "note", 15: "depth", 16: "coll_method", 17: "stamp",
}
PHASES = ("", "init", "comm-init", "compile", "data", "forward", "backward", "optimizer",
          "checkpoint", "eval", "gc", "other")
OPS = ("", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all",
       "barrier", "gather", "scatter", "other", "send", "recv")
DTYPES = ("", "float32", "bfloat16", "float16", "float64", "float8_e4m3", "float8_e5m2", "int8", "int16",
          "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128",
          "other", "mixed")
METRICS = ("", "loss", "grad_norm", "tokens", "length_squares", "micro_batches", "values_late", "flop")
COMM_KINDS = ("other", "world", "dp", "tp", "pp", "cp", "ep")

Event = namedtuple("Event", "time step kind detail stream comm a b c d lane")
Comm = namedtuple("Comm", "id size index kind name enqueued started ended p2p_enqueued p2p_ended")


def _text(data):
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


class Ring:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.data = data = file.read()
        (magic, version, header, size, self.lanes, self.records, self.rank, self.world,
         self.attempt, self.pid) = struct.unpack_from("<QIIQIIIIII", data, 0)
        assert magic == MAGIC and version in (1, 2, 3) and header == 4096 and size == len(data), path
        self.run, self.program = _text(data[88:152]), _text(data[152:216])
        (self.step, self.lanes_used, self.comms_used, self.dropped, self.closed,
         layout_seq) = struct.unpack_from("<QIIQII", data, 256)
        fields = struct.unpack_from("<10H", data, 288)
        names = ("tp", "pp", "dp", "cp", "ep")
        self.layout = dict(zip(names, zip(fields[5:], fields[:5]))) if layout_seq else None
        self.comms = [self._comm(4096 + 128 * i) for i in range(64)]
        self.lost = 0
        self.tids = []
        events = []
        for lane in range(self.lanes):
            events += self._lane(lane)
        self.events = sorted(events, key=lambda event: event.time)

    def _comm(self, at):
        ready, size, index, kind, identity = struct.unpack_from("<IIIIQ", self.data, at)
        if not ready:
            return None
        counts = struct.unpack_from("<6Q", self.data, at + 64)
        return Comm(identity, size, index, COMM_KINDS[kind], _text(self.data[at + 24:at + 56]),
                    counts[0], counts[1], counts[2], counts[3], counts[5])

    def _lane(self, lane):
        at = 12288 + lane * (64 + self.records * 64)
        head, tid = struct.unpack_from("<QI", self.data, at)
        self.tids.append(tid)
        first = max(0, head - self.records + (head >= self.records))
        self.lost += first
        return [self._event(at + 64 + (n % self.records) * 64, n, lane) for n in range(first, head)]

    def _event(self, at, n, lane):
        seq, time, step, what, a, b, c, d = struct.unpack_from("<8Q", self.data, at)
        assert seq == 2 * n + 2, "record %d of lane %d: seq %d" % (n, lane, seq)
        comm = what >> 32
        kind, detail = KINDS[what & 0xFF], what >> 8 & 0xFF
        if kind.startswith("phase") or kind == "span":
            detail = PHASES[detail]
        elif kind.endswith("enqueue") or kind == "coll_method":
            detail = OPS[detail]
        elif kind == "metric":
            detail = METRICS[detail]
            a = struct.unpack("<d", struct.pack("<Q", a))[0]
        return Event(time, None if step == NONE else step, kind, detail, what >> 16 & 0xFFFF,
                     None if comm == 0xFFFFFFFF else comm, a, b, c, d, lane)

    # ---- what tests ask ----

    def of(self, *kinds):
        return [event for event in self.events if event.kind in kinds]

    def steps(self):
        """Numbers of the steps that began, in order."""
        return [event.step for event in self.of("step_begin")]

    def phases(self, step="all", main_only=True):
        """Names of the phases that began, in order, of one step (None: before the first)."""
        return [event.detail for event in self.of("phase_begin")
                if (step == "all" or event.step == step) and (not main_only or event.lane == 0)]

    def ops(self, step="all"):
        """[op, communicator's place, key, bytes, start, end] of collectives, in launch order."""
        return self._ops("coll", step)

    def messages(self, step="all"):
        return self._ops("p2p", step)

    def _ops(self, kind, step):
        times = {"start": {}, "end": {}}
        for event in self.of(kind + "_start", kind + "_end"):
            times[event.kind[len(kind) + 1:]][event.comm, event.a] = event.time
        return [Op(event.detail, event.comm, event.a, event.b, event.c, event.stream, event.time,
                   times["start"].get((event.comm, event.a)), times["end"].get((event.comm, event.a)),
                   event.step, DTYPES[event.d])
                for event in self.of(kind + "_enqueue") if step in ("all", event.step)]

    def how(self):
        """[op, communicator's place, bytes, channels, words] of how collectives are moved, in order."""
        return [(event.detail, event.comm, event.a & (1 << 48) - 1, event.a >> 48,
                 _text(struct.pack("<3Q", event.b, event.c, event.d))) for event in self.of("coll_method")]

    def metrics(self, name):
        return [(event.step, event.a) for event in self.of("metric") if event.detail == name]

    def notes(self):
        found, parts = [], {}
        for event in self.of("note"):
            part = event.detail & 0x7F
            text = struct.pack("<4Q", event.a, event.b, event.c, event.d)
            parts[event.lane] = text if part == 0 else parts.get(event.lane, b"") + text
            if not event.detail & 0x80:
                found.append(_text(parts.pop(event.lane)))
        return found

    def check_nesting(self):
        """Every phase that ended had begun in its lane, innermost first; returns those still open."""
        left = []
        for lane in range(self.lanes):
            stack = []
            for event in self.of("phase_begin", "phase_end"):
                if event.lane != lane:
                    continue
                if event.kind == "phase_begin":
                    stack.append(event.detail)
                else:
                    assert stack and stack[-1] == event.detail, \
                        "%s ended inside %r at step %r" % (event.detail, stack, event.step)
                    stack.pop()
            left += stack
        return left


Op = namedtuple("Op", "op comm key bytes peer stream enqueue start end step dtype")


def rings(directory):
    """All rings of a directory: [Ring], by rank and number."""
    def order(path):
        return tuple(int(n) for n in re.match(r"rank-(\d+)\.(\d+)\.ring$",
                                              os.path.basename(path)).groups())
    return [Ring(path) for path in sorted(glob.glob(os.path.join(directory, "rank-*.ring")),
                                          key=order)]
