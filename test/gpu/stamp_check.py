# SPDX-License-Identifier: Apache-2.0
"""What a stamp of the device costs, and what it is worth.

Measures on one GPU: what a stamp costs the host and the device beside cuEventRecord, how fine and how steady the device's clock
is, whether stamps in a CUDA graph come with every replay, whether the ring can be read while the process is stopped, and
what lockstep adds to `import torch`.  Prints one JSON object; exits 1 when something that must work does not.
Needs torch with CUDA, and a build:

    python3 test/gpu/stamp_check.py [--build build] [--only cost,clock,graph,stopped,import]
"""
import argparse
import ctypes
import glob
import json
import math
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
STEP_BEGIN, STEP_END, PHASE, WAIT_BEGIN = 1, 2, 3, 4
CAPTURED = 1 << 63


# ---- the ring, as docs/ring-format.md has it ----

def check_of(count, tag, device_ns):
    return (count * 0x9e3779b97f4a7c15 + tag * 0xbf58476d1ce4e5b9 + device_ns * 0x94d049bb133111eb + 1) & (1 << 64) - 1


class Ring:
    def __init__(self, folder):
        self.path = glob.glob(os.path.join(folder, "rank-*.ring"))[0]
        with open(self.path, "rb") as file:
            header = file.read(4096)
        lanes, records = struct.unpack_from("<II", header, 24)
        self.places = struct.unpack_from("<I", header, 216)[0]
        self.head = (12288 + lanes * (64 + 64 * records) + 4095) // 4096 * 4096

    def stamps(self):
        """[(count, tag, device's time)], oldest first."""
        with open(self.path, "rb") as file:
            file.seek(self.head + 4096)
            data = file.read(self.places * 32)
        found = [one for one in struct.iter_unpack("<QQQQ", data) if one[0] and check_of(*one[:3]) == one[3]]
        return sorted(one[:3] for one in found)

    def clock(self):
        with open(self.path, "rb") as file:
            file.seek(self.head)
            return struct.unpack("<QqqQ", file.read(32))


class Stamps:
    """The ring of this process with stamps on, through the package."""

    def __init__(self, torch):
        sys.path.insert(0, os.path.join(ARGS.build, "bindings", "python"))
        import lockstep  # noqa: F401
        from lockstep._fast import fast
        from lockstep._probe import probe
        assert probe.open(0, 1), "no ring"
        torch.zeros(1, device="cuda")
        cuda = ctypes.CDLL("libcuda.so.1", os.RTLD_NOLOAD | os.RTLD_NOW)
        find = ctypes.cast(ctypes.CDLL(None).dlsym, ctypes.c_void_p).value
        why = ctypes.create_string_buffer(200)
        begin = time.perf_counter()
        result = probe.library.stamps_use(probe.handle, find, cuda._handle, why, len(why))
        self.open_ms = (time.perf_counter() - begin) * 1e3
        if result < 0:
            raise RuntimeError(why.value.decode())
        assert fast.use()
        fast.builtin("stamp_stream")(torch._C._cuda_getCurrentRawStream, (0,))
        self.stamp, self.probe, self.cuda = fast.builtin("stamp"), probe, cuda
        self.step_begin, self.step_end = fast.builtin("step_begin"), fast.builtin("step_end")
        self.phase_begin, self.phase_end = fast.builtin("phase_begin"), fast.builtin("phase_end")
        self.ring = Ring(os.environ["LOCKSTEP_DIR"])


# ---- cost ----

def host_ns(call, torch, times=20000):
    """Nanoseconds of one call, with the queue never full; the median of rounds of 200."""
    each = []
    for _ in range(times // 200):
        begin = time.perf_counter_ns()
        for _ in range(200):
            call()
        each.append((time.perf_counter_ns() - begin) / 200)
        torch.cuda.synchronize()
    return round(statistics.median(each))


def device_us(torch, between, kernels=1000):
    """Microseconds of the stream for each kernel and what comes between two of them: the host is ahead by a sleep."""
    x = torch.zeros(1 << 18, device="cuda")
    best = 1e9
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(60_000_000)
        begin.record()
        for _ in range(kernels // 4):  # the queue has about 1,000 places
            x.add_(1)
            between()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e3 / (kernels // 4))
    return round(best, 2)


def cost(torch, on):
    stamp, cuda = on.stamp, on.cuda
    events = [torch.cuda.Event(enable_timing=True) for _ in range(200)]
    bare = [torch.cuda.Event() for _ in range(200)]
    for event in events + bare:
        event.record()
    handles = iter(())

    def raw():
        nonlocal handles
        handle = next(handles, None)
        if handle is None:
            handles = iter(events)
            handle = next(handles)
        cuda.cuEventRecord(ctypes.c_void_p(handle.cuda_event), None)

    version = ctypes.c_int()
    number = iter(range(1 << 40))
    on.step_begin(next(number))

    def one():
        stamp(WAIT_BEGIN)

    steps_done = 0

    def stamped():
        nonlocal steps_done
        steps_done += 1
        if steps_done % 400 == 0:
            on.step_begin(next(number))
        stamp(WAIT_BEGIN)

    result = {
        "open_ms": round(on.open_ms, 1),
        "host_ns": {
            "stamp": host_ns(stamped, torch),
            "cuEventRecord_by_ctypes": host_ns(raw, torch),
            "ctypes_call": host_ns(lambda: cuda.cuDriverGetVersion(ctypes.byref(version)), torch),
            "kernel_of_torch": host_ns(lambda x=torch.zeros(8, device="cuda"): x.add_(1), torch),
        },
    }
    at = 0

    def event(pool):
        def record():
            nonlocal at
            at = (at + 1) % 200
            pool[at].record()
        return record

    on.step_begin(next(number))
    nothing = device_us(torch, lambda: None)
    result["device_us"] = {"kernel": nothing}
    on.step_begin(next(number))
    result["device_us"]["stamp"] = round(device_us(torch, stamped) - nothing, 2)
    result["device_us"]["event_with_time"] = round(device_us(torch, event(events)) - nothing, 2)
    result["device_us"]["event_without"] = round(device_us(torch, event(bare)) - nothing, 2)
    why = on.probe.library.stamps_reason()
    result["off"] = why.decode() if why else None
    return result, why is None


# ---- the clock ----

def clock(torch, on):
    seconds, points = 8, []
    begin = time.monotonic()
    number = 1 << 41
    while time.monotonic() - begin < seconds:
        number += 1
        on.step_begin(number)
        time.sleep(0.01)  # a step's length
        points.append((time.monotonic_ns(), on.ring.clock()))
    torch.cuda.synchronize()
    device = [one[2] for one in on.ring.stamps()]
    gaps = [b - a for a, b in zip(device, device[1:]) if b > a]
    first = points[len(points) // 2][1]
    last = points[-1][1]
    apart = last[3] - first[3]
    # An event that the host sees end: both clocks at one time, from the other side.
    late = []
    for _ in range(200):
        number += 1
        on.step_begin(number)
        torch.cuda.synchronize()
        now = time.monotonic_ns()
        stamp = on.ring.stamps()[-1]
        _, offset, drift, at = on.ring.clock()
        late.append(now - (stamp[2] - offset))
    return {
        "resolution_ns": math.gcd(*gaps) if gaps else None, "smallest_gap_ns": min(gaps) if gaps else None,
        "drift_ppm": round(last[2] / 4294.967296, 3),
        "offset_moved_ns_per_s": round((last[1] - first[1]) * 1e9 / apart) if apart > 0 else None,
        "sync_seen_after_stamp_us": {"least": round(min(late) / 1e3, 1), "median": round(statistics.median(late) / 1e3, 1)},
    }, bool(gaps) and min(late) > 0


# ---- graphs ----

def graph(torch, on):
    x = torch.zeros(1 << 20, device="cuda")
    on.step_begin(1 << 42)
    for _ in range(3):
        x.add_(1)
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        on.stamp(WAIT_BEGIN)
        x.add_(1)
        on.stamp(WAIT_BEGIN)
    before = on.ring.stamps()[-1][0]
    for _ in range(5):
        recorded.replay()
    torch.cuda.synchronize()
    new = [one for one in on.ring.stamps() if one[0] > before]
    tags = [one[1] & ~CAPTURED for one in new if one[1] & CAPTURED]
    good = len(tags) == 10 and len(set(tags)) == 2 and sorted(one[2] for one in new) == [one[2] for one in new]
    return {"replays": 5, "stamps": len(tags), "kinds": len(set(tags))}, good


# ---- a stopped process ----

CHILD = r"""
import os, sys
sys.argv = ["stamp_check.py", "--build", os.environ["CHECK_BUILD"], "--only", "none"]
sys.path.insert(0, os.environ["CHECK_HERE"])
import stamp_check, torch
on = stamp_check.Stamps(torch)
on.step_begin(1)
torch.cuda.synchronize()
for _ in range(30):
    torch.cuda._sleep(100_000_000)
    on.stamp(4)
print("launched", flush=True)
os.kill(os.getpid(), 19)
"""


def stopped():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        env = dict(os.environ, LOCKSTEP_DIR=folder, CHECK_BUILD=ARGS.build, CHECK_HERE=HERE)
        child = subprocess.Popen([sys.executable, "-c", CHILD], env=env, stdout=subprocess.PIPE, text=True)
        line = child.stdout.readline()
        time.sleep(0.3)  # the device goes on meanwhile
        with open("/proc/%d/stat" % child.pid) as file:
            state = file.read().rsplit(")", 1)[1].split()[0]
        ring = Ring(folder)
        seen = []
        for _ in range(4):
            seen.append(len(ring.stamps()))
            time.sleep(0.3)  # the device goes on meanwhile
        child.send_signal(signal.SIGKILL)
        child.wait()
        return {"child": line.strip(), "state": state, "stamps_seen": seen}, state == "T" and seen[-1] > seen[0]


# ---- import torch ----

def imports():
    site = os.path.join(ARGS.build, "bindings", "python", "lockstep", "site")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        plain = dict(os.environ)
        plain.pop("LOCKSTEP_DIR", None)
        ours = dict(plain, LOCKSTEP_DIR=folder, LOCKSTEP_RUN="check", RANK="0", WORLD_SIZE="1", PYTHONPATH=site)
        times = {"plain": [], "ours": []}
        script = "import time; b = time.perf_counter(); import torch; print(time.perf_counter() - b)"
        subprocess.run([sys.executable, "-c", script], env=plain, capture_output=True)
        for _ in range(6):
            for name, env in ("plain", plain), ("ours", ours):
                out = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
                times[name].append(float(out.stdout.split()[-1]))
        modules = subprocess.run([sys.executable, "-X", "importtime", "-c", "import torch"], env=ours, capture_output=True,
                                 text=True).stderr.splitlines()
        plainly = subprocess.run([sys.executable, "-X", "importtime", "-c", "import torch"], env=plain,
                                 capture_output=True, text=True).stderr.splitlines()
    names = [{line.split("|")[-1].strip() for line in lines if line.count("|") == 2} for lines in (modules, plainly)]
    more = [line for line in modules if line.count("|") == 2 and line.split("|")[-1].strip() in names[0] - names[1]]
    more.sort(key=lambda line: -int(line.split("|")[1]))
    differences = [b - a for a, b in zip(times["plain"], times["ours"])]
    return {"plain_s": round(statistics.median(times["plain"]), 3), "ours_s": round(statistics.median(times["ours"]), 3),
            "more_s": [round(one, 3) for one in sorted(differences)],
            "modules_only_with_us": [" ".join(line.split("|")[1:]).strip() for line in more[:12]]}, True


def main():
    wanted = ARGS.only.split(",")
    result, good = {}, True
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["LOCKSTEP_DIR"] = folder
        if "import" in wanted:
            result["import"], ok = imports()
            good = good and ok
        if {"cost", "clock", "graph"} & set(wanted):
            import torch
            result["machine"] = [torch.__version__, torch.cuda.get_device_name()]
            on = Stamps(torch)
            for name, part in ("cost", cost), ("clock", clock), ("graph", graph):
                if name in wanted:
                    try:
                        result[name], ok = part(torch, on)
                    except Exception as error:
                        result[name], ok = repr(error), False
                    good = good and ok
        if "stopped" in wanted:
            try:
                result["stopped"], ok = stopped()
            except Exception as error:
                result["stopped"], ok = repr(error), False
            good = good and ok
    print(json.dumps(result))
    return 0 if good else 1


PARSER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
PARSER.add_argument("--build", default=os.path.join(SOURCE, "build") if os.path.isdir(os.path.join(SOURCE, "build")) else SOURCE)
PARSER.add_argument("--only", default="cost,clock,graph,stopped,import")
ARGS = PARSER.parse_args()
if __name__ == "__main__":
    sys.exit(main())
