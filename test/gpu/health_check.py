# SPDX-License-Identifier: Apache-2.0
"""Health checks and sensors on a machine with an NVIDIA GPU: what they answer, how long they take, what they cost.

Prints one JSON object with a part for each of --only, and in "wrong" what is not as it should be; exits 1 when there is
something, 77 without a GPU.  Clocks, limits and modes of the GPU are never changed.  Needs torch with CUDA, and a build or the
folder that tools/gpu-bundle makes:

    python3 test/gpu/health_check.py [--build build] [--only doctor,quick,prolog,flip,gemm,rates,pairs,busy,sense,gpus,stuck,cost,wild,event,deep,burn]

    doctor   what the sensors can read here
    quick, prolog, deep   `lockstep check --stage ...`: results and time
    burn     gpu-heat alone for --burn-seconds: temperature, power and clocks, and whether they were steady
    flip     a bit flipped on the first, a middle and the last SM: gpu-arithmetic must fail and name it
    gemm     the rate of gpu-gemm beside that of torch's product of two matrices: at least 95 %
    rates    the rates of gpu-rate beside those that torch measures: memory at least 90 %, PCIe at least 95 %
    pairs    `lockstep fabric test --with nccl` between two workers that share the GPU: each is a host of its own to NCCL, which
             refuses two ranks of one host on one GPU; that is tried as well
    busy     a process computes meanwhile: the check must not touch the GPU, and the process must not become slower
    sense    `lockstep sense` beside a load that heats the GPU: findings, clocks and reasons as NVML gives them, memory, CPU time
    gpus     `lockstep sense --gpus` idle and beside a load: which values are reported, activity of SMs and tensor cores, what one read costs
    stuck    the process that asks NVML is stopped: a finding within 6 s, and the kernel log is read meanwhile
    cost     `lockstep bench agent` with this machine's libnvidia-ml: memory of agent and sensors, at most 24 MB
    wild     a rank stores to an address that is not mapped: the verdict must name the rank and the Xid of the kernel log
    event    the same without the kernel log: the Xid is NVML's event, of the only process on the GPU
"""
import argparse
import ctypes
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PARTS = "doctor,quick,prolog,flip,gemm,rates,pairs,busy,sense,gpus,stuck,cost,wild,event"
GPU_CHECKS = ("gpu-arithmetic", "gpu-memory", "gpu-rate")
RSS_BYTES = 24 << 20  # of the agent with the real NVML

# Computes until it is told to end; each line is how long 20 products took.
LOAD = r"""
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
print("ready", flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    begin = time.monotonic()
    for _ in range(20):
        a @ b
    torch.cuda.synchronize()
    print("%.6f %.6f" % (begin, time.monotonic() - begin), flush=True)
"""

# What NVML's counters cost: milliseconds of a sample, and of ordinary calls.
COUNTERS = r"""
import ctypes, time
nvml = ctypes.CDLL("libnvidia-ml.so.1")
gpu, sample = ctypes.c_void_p(), ctypes.c_void_p()
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))
print("alloc", nvml.nvmlGpmSampleAlloc(ctypes.byref(sample)))
power = ctypes.c_uint()
for name, call in (("sample", lambda: nvml.nvmlGpmSampleGet(gpu, sample)),
                   ("power", lambda: nvml.nvmlDeviceGetPowerUsage(gpu, ctypes.byref(power)))):
    cpu, begin = time.process_time(), time.monotonic()
    status = [call() for _ in range(20)]
    print("%s: status %d, %.2f ms, of them %.2f of CPU" % (name, status[-1], 50 * (time.monotonic() - begin), 50 * (time.process_time() - cpu)))
"""

RATES = r"""
import json, torch
def best(copy, count=8, tries=5):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    rates = []
    for _ in range(tries):
        begin.record()
        for _ in range(count):
            copy()
        end.record()
        torch.cuda.synchronize()
        rates.append(count / begin.elapsed_time(end) * 1e3)
    return max(rates)
result = {}
for mib in (256, 4096):
    size = mib << 20
    a, b = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    a.zero_()
    result["memory_%d_mib" % mib] = 2 * size * best(lambda: b.copy_(a)) / 1e9
    if mib == 256:
        host = torch.empty(size, dtype=torch.uint8).pin_memory()
        result["to_gpu"] = size * best(lambda: a.copy_(host, non_blocking=True)) / 1e9
        result["from_gpu"] = size * best(lambda: host.copy_(a, non_blocking=True)) / 1e9
    del a, b
print(json.dumps(result))
"""

GEMM = r"""
import json, torch
n = 8192
a, b = (torch.randint(-4, 5, (n, n), device="cuda").to(torch.bfloat16) for _ in range(2))
d = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
rates = []
for turn in range(5):
    begin.record()
    for _ in range(40):
        torch.matmul(a, b.t(), out=d)
    end.record()
    torch.cuda.synchronize()
    rates.append(2 * n ** 3 * 40 / begin.elapsed_time(end) / 1e9)
print(json.dumps({"tflops": max(rates), "all": [round(r, 1) for r in rates]}))
"""

WILD = r"""
import ctypes, os, sys
rank = int(os.environ["RANK"])
os.environ.update(NCCL_HOSTID="host%d" % rank, NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
import torch, torch.distributed as dist
alone = "WILD_ALONE" in os.environ  # the other ranks stay away from the GPU
device = "cpu" if alone and rank != 1 else "cuda"
if alone:
    dist.init_process_group("gloo")
else:
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).to(device))
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(64, 512, device=device)

def wild_store():
    ptx = b'''.version 7.0
.target sm_80
.address_size 64
.visible .entry wild(.param .u64 at) {
  .reg .u64 %a; .reg .u32 %v;
  ld.param.u64 %a, [at];
  mov.u32 %v, 1;
  st.global.u32 [%a], %v;
  ret;
}
'''
    cuda = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"wild") == 0
    at = ctypes.c_uint64(0x7f1234567000)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(at), ctypes.c_void_p))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == 0

for step in range(200):
    if rank == 1 and step == 60:
        wild_store()
    loss = model(x).square().mean()
    loss.backward()
    opt.step(); opt.zero_grad()
    loss.item()
"""


class Check:
    def __init__(self, build, place, sense_seconds, cost_seconds=15):
        self.lockstep = os.path.join(build, "lockstep")
        self.place, self.sense_seconds, self.cost_seconds = place, sense_seconds, cost_seconds
        self.env = dict(os.environ, LOCKSTEP_STATE=os.path.join(place, "state"), PYTHONUNBUFFERED="1")
        # cuBLASLt and NCCL of torch's wheels, for machines that have no others.
        wheels = [folder for path in sys.path for folder in sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib")))]
        self.env["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH")] + wheels))
        self.burn_seconds = 60
        self.wrong = []

    def expect(self, right, words):
        if not right:
            self.wrong.append(words)
        return right

    def run(self, *words, limit_s=100, env=None):
        begin = time.monotonic()
        try:
            done = subprocess.run(words, env=dict(self.env, **(env or {})), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=limit_s)
            status, out, err = done.returncode, done.stdout, done.stderr
        except FileNotFoundError as error:
            status, out, err = 127, "", str(error)
        except subprocess.TimeoutExpired as late:
            status, out, err = "not ended after %d s" % limit_s, (late.stdout or b"").decode(), (late.stderr or b"").decode()
        return {"status": status, "out": out, "err": err[-1500:], "seconds": round(time.monotonic() - begin, 2)}

    def check(self, *options, limit_s=310):
        """`lockstep check --json`, with a short form of its results."""
        done = self.run(self.lockstep, "check", "--json", *options, limit_s=limit_s)
        try:
            answer = json.loads(done["out"])
        except ValueError:
            self.wrong.append("check %s: no JSON" % " ".join(options))
            return dict(done, checks=[])
        results = [{key: c[key] for key in ("name", "device", "state", "value", "unit", "why", "seconds") if c[key] is not None}
                   for c in answer["checks"] if c["state"] != "not-applicable"]
        return {"status": done["status"], "verdict": answer["verdict"], "wall_s": done["seconds"], "checks": results, "err": done["err"]}

    # ---- parts ----

    def doctor(self):
        smi = self.run("nvidia-smi", "--query-gpu=name,driver_version,memory.used,memory.total,utilization.gpu,clocks.sm,"
                       "power.draw,power.limit,temperature.gpu,pcie.link.gen.current,pcie.link.width.current", "--format=csv,noheader")
        doctor = self.run(self.lockstep, "doctor")
        return {"nvidia-smi": smi["out"].strip() or smi["err"], "kmsg": os.access("/dev/kmsg", os.R_OK),
                "pid_namespace": os.readlink("/proc/self/ns/pid"), "doctor": doctor["out"].splitlines(), "status": doctor["status"]}

    def stage(self, stage):
        result = self.check("--stage", stage, "--dir", self.place)
        states = {c["name"]: c["state"] for c in result["checks"]}
        limit = {"quick": 5, "prolog": 30, "deep": 300}[stage]
        self.expect(result.get("wall_s", 999) <= limit, "%s took %s s, limit %d" % (stage, result.get("wall_s"), limit))
        for name in ("gpu-peers",) if stage == "quick" else GPU_CHECKS + ("gpu-gemm", "gpu-heat") * (stage == "deep"):
            states.setdefault("gpu-rate", states.get("gpu-memory-rate"))
            self.expect(states.get(name) == "ok", "%s: %s is %s" % (stage, name, states.get(name)))
        return result

    def burn(self):
        result = self.check("--stage", "burn", "--only", "gpu-heat", "--time", "%ds" % self.burn_seconds,
                            limit_s=self.burn_seconds + 60)
        heat = [c for c in result["checks"] if c["name"] == "gpu-heat"]
        self.expect(heat and heat[0]["state"] in ("ok", "unknown"), "burn: %s" % heat)
        return result

    def gemm(self):
        mine = self.run(sys.executable, "-c", GEMM)
        answer = self.check("--only", "gpu-gemm")
        ours = {c["name"]: c.get("value", 0) for c in answer["checks"]}
        try:
            torch = json.loads(mine["out"])
        except ValueError:
            self.wrong.append("torch multiplied nothing")
            return {"torch": mine, "lockstep": answer}
        share = ours.get("gpu-gemm", 0) / torch["tflops"]
        self.expect(share >= 0.95, "gpu-gemm is %.3f of what torch reaches" % share)
        self.expect(ours.get("gpu-tensor-rate", 0) > 0, "the own kernel was not measured")
        return {"torch": torch, "lockstep": ours, "share": share, "checks": answer["checks"], "wall_s": answer.get("wall_s")}

    def pair_test(self, hosts):
        workers, nodes = [], []
        for number, host in enumerate(hosts, 2):
            env = dict(self.env, NCCL_HOSTID=host, NCCL_SOCKET_IFNAME="lo", NCCL_NET="Socket", NCCL_IB_DISABLE="1")
            worker = subprocess.Popen([self.lockstep, "fabric", "serve", "--listen", "127.0.0.%d:0" % number, "--nccl", "--shared-gpus"],
                                      env=env, stdout=subprocess.PIPE, text=True)
            workers.append(worker)
            nodes.append(re.search(r" at (\S+),", worker.stdout.readline()).group(1))
        test = self.run(self.lockstep, "fabric", "test", "--with", "nccl", "--nodes", ",".join(nodes), "--rate", "20", "--time", "1s",
                        "--json")
        for worker in workers:
            worker.terminate()
            worker.wait()
        try:
            answer = json.loads(test["out"])
        except ValueError:
            self.wrong.append("pairs: no JSON")
            return test
        return {"status": test["status"], "wall_s": test["seconds"], "verdict": answer["verdict"], "pairs": answer["pairs"],
                "named": answer["named"], "skipped": answer["skipped"]}

    def pairs(self):
        two, one = self.pair_test(["one", "other"]), self.pair_test(["same", "same"])
        good = [p for p in two.get("pairs", []) if not p["error"] and p["gbps"] > 0 and p["latency_us"]]
        self.expect(len(good) == 2, "pairs: %d of 2 directions were measured" % len(good))
        self.expect(not one.get("pairs") and not one.get("named"), "pairs on one host: %s" % one)
        return {"two hosts": two, "one host": one}

    def flip(self):
        # In a process of its own: what has a context uses the GPU.
        asked = self.run(sys.executable, "-c", "import torch; print(torch.cuda.get_device_properties(0).multi_processor_count)")
        sms = int(asked["out"])
        result = {}
        for sm in (0, sms // 2 + 1, sms - 1):
            answer = self.check("--flip-bit", str(sm))
            failed = [(c["value"], c["unit"]) for c in answer["checks"] if c["state"] == "failed"]
            self.expect(failed == [(float(sm), "SM")], "flip on SM %d: failed %s" % (sm, failed))
            result[str(sm)] = {"status": answer["status"], "wall_s": answer.get("wall_s"),
                               "why": [c["why"] for c in answer["checks"] if c["state"] == "failed"], "err": answer["err"]}
        return result

    def rates(self):
        mine = self.run(sys.executable, "-c", RATES)
        answer = self.check("--only", "gpu-rate")
        ours = {c["name"]: c["value"] for c in answer["checks"] if "value" in c}
        try:
            torch = json.loads(mine["out"])
        except ValueError:
            self.wrong.append("torch measured no rates")
            return {"torch": mine, "lockstep": ours}
        share = {"gpu-memory-rate": ours.get("gpu-memory-rate", 0) / torch["memory_256_mib"],
                 "gpu-memory-rate of large copies": ours.get("gpu-memory-rate", 0) / torch["memory_4096_mib"],
                 "pcie-to-gpu": ours.get("pcie-to-gpu", 0) / torch["to_gpu"],
                 "pcie-from-gpu": ours.get("pcie-from-gpu", 0) / torch["from_gpu"]}
        for name, value in share.items():
            self.expect(value >= (0.9 if "memory" in name else 0.95), "%s is %.3f of what torch reaches" % (name, value))
        return {"torch_gb_s": torch, "lockstep_gb_s": ours, "share": share, "checks": answer["checks"]}

    def load(self, seconds):
        load = subprocess.Popen([sys.executable, "-c", LOAD, str(seconds)], env=self.env, stdout=subprocess.PIPE, text=True)
        load.stdout.readline()
        return load

    def busy(self):
        load = self.load(16)
        time.sleep(4)  # how fast it is alone
        begin = time.monotonic()
        answer = self.check("--stage", "prolog", "--only", "gpu-arithmetic")
        more = [self.check("--only", name) for name in GPU_CHECKS[1:] + ("gpu-heat",)]
        end = time.monotonic()
        apps = self.run("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader")
        pairs = [tuple(map(float, line.split())) for line in load.communicate()[0].splitlines()]
        before = [took for at, took in pairs if at < begin]
        during = [took for at, took in pairs if begin <= at < end]
        states = [c["state"] for one in [answer] + more for c in one["checks"]]
        self.expect(states and set(states) == {"unknown"}, "busy: states are %s" % states)
        slower = statistics.median(during) / statistics.median(before) if before and during else None
        self.expect(slower is not None and slower < 1.05, "busy: the process became slower: %s" % slower)
        self.expect(load.returncode == 0, "busy: the process ended with %s" % load.returncode)
        return {"why": [c["why"] for one in [answer] + more for c in one["checks"]], "status": answer["status"],
                "seconds": round(end - begin, 1), "slower": slower, "apps": apps["out"] or apps["err"], "load": load.pid}

    def usage(self, pid):
        """CPU seconds and RssAnon in KB of a process and its children."""
        total, memory = 0.0, {}
        family = [pid] + [int(word) for path in ("/proc/%d/task/%d/children" % (pid, pid),) if os.path.exists(path)
                          for word in open(path).read().split()]
        for one in family:
            try:
                fields = open("/proc/%d/stat" % one).read().rsplit(")", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                memory[str(one)] = int(re.search(r"RssAnon:\s+(\d+)", open("/proc/%d/status" % one).read()).group(1))
            except (OSError, AttributeError):
                pass
        return total, memory

    def sense(self):
        once = self.run(self.lockstep, "sense", "--once", "--json")
        sense = subprocess.Popen([self.lockstep, "sense", "--json"], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(3)  # until the sensors have begun
        cpu, memory = self.usage(sense.pid)
        begin, samples = time.monotonic(), []
        load = self.load(self.sense_seconds * 2 / 3)
        while time.monotonic() - begin < self.sense_seconds:
            smi = self.run("nvidia-smi", "--query-gpu=clocks.sm,clocks_event_reasons.active,power.draw,temperature.gpu,"
                           "utilization.gpu", "--format=csv,noheader")
            samples.append("%.0f s: %s" % (time.monotonic() - begin, smi["out"].strip() or smi["err"]))
            time.sleep(4)  # between samples
        cpu_end, memory_end = self.usage(sense.pid)
        load.communicate()
        sense.send_signal(signal.SIGINT)
        out, err = sense.communicate(timeout=10)
        percent = 100 * (cpu_end - cpu) / (time.monotonic() - begin)
        self.expect(sum(memory_end.values()) * 1024 <= RSS_BYTES, "sense: RssAnon %s KB" % memory_end)
        return {"once": {"status": once["status"], "out": once["out"][:3000], "err": once["err"]}, "samples": samples,
                "findings": out.splitlines()[:20], "err": err[-1000:], "cpu_percent": round(percent, 3),
                "rss_anon_kb": memory, "rss_anon_kb_end": memory_end}

    def library(self):
        return next((path for path in self.run("sh", "-c", "ldconfig -p | sed -n 's/.*libnvidia-ml.so.1.* => //p'; "
                     "ls /usr/local/nvidia/lib64/libnvidia-ml.so.1 2>/dev/null")["out"].split() if os.path.exists(path)), None)

    def gpus(self):
        def read():
            done = self.run(self.lockstep, "sense", "--gpus", "--json", limit_s=20)
            try:
                return dict(json.loads(done["out"].splitlines()[0]), seconds=done["seconds"])
            except (ValueError, IndexError):
                return {"values": {}, "not_reported": ["all"], "failed": done}
        idle = read()
        load = self.load(5)
        busy = read()
        cost = self.run(sys.executable, "-c", COUNTERS, limit_s=30)
        load.communicate()
        active = [one["values"].get("SMs active", -1) for one in (idle, busy)]
        self.expect(0 <= active[0] < 20 and active[1] > 80, "gpus: SMs active %s %%" % active)
        self.expect(busy["values"].get("tensor cores active", -1) > 30, "gpus: tensor cores active in products of matrices: %s"
                    % busy["values"].get("tensor cores active"))
        return {"idle": idle, "busy": busy, "cost": cost["out"].strip() or cost["err"]}

    def stuck(self):
        log, root = os.path.join(self.place, "kmsg"), self.root("stuck-root")
        if not root:
            return None
        os.mkfifo(log)
        sense = subprocess.Popen([self.lockstep, "sense", "--json", "--sysroot", root, "--kmsg", log],
                                 env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with open(log, "w", buffering=1) as kmsg:
            time.sleep(3)  # until NVML has answered
            children = open("/proc/%d/task/%d/children" % (sense.pid, sense.pid)).read().split()
            if not self.expect(len(children) == 1, "stuck: children %s" % children):
                sense.kill()
                return None
            begin, seen = time.monotonic(), {}
            os.kill(int(children[0]), signal.SIGSTOP)
            kmsg.write("3,9,904000000,-;mlx5_core 0000:81:00.0 ens2np0: Link down\n")
            killer = threading.Timer(12, sense.kill)
            killer.start()
            for line in sense.stdout:
                finding = json.loads(line)
                seen.setdefault(finding["kind"], {"after_s": round(time.monotonic() - begin, 2), "text": finding["text"]})
                if "sensor" in seen and "nic" in seen:
                    break
            killer.cancel()
            sense.kill()
            sense.wait()
        self.expect(seen.get("sensor", {"after_s": 99})["after_s"] <= 6, "stuck: %s" % seen)
        self.expect(seen.get("nic", {"after_s": 99})["after_s"] <= 1, "stuck: the kernel log waits: %s" % seen)
        return seen

    def cost(self):
        library = self.library()
        if not self.expect(library, "cost: no libnvidia-ml.so.1"):
            return None
        done = self.run(self.lockstep, "bench", "agent", "--json", "--nvml", library, "--seconds", str(self.cost_seconds))
        try:
            answer = json.loads(done["out"])
        except ValueError:
            self.wrong.append("cost: no JSON")
            return done
        self.expect(answer["rss_anon_bytes"] <= RSS_BYTES, "cost: RssAnon %d bytes" % answer["rss_anon_bytes"])
        return answer

    def crash(self, name, env):
        script = os.path.join(self.place, "wild.py")
        with open(script, "w") as file:
            file.write(WILD)
        run_dir = os.path.join(self.place, name)
        done = self.run(self.lockstep, "run", "-n", "2", "--dir", run_dir, "--max-restarts", "0", "--", sys.executable, script,
                        limit_s=90, env=env)
        why = self.run(self.lockstep, "why", "--json", run_dir)
        text = self.run(self.lockstep, "why", run_dir)
        try:
            verdicts = json.loads(why["out"])["verdicts"]
        except ValueError:
            verdicts = []
        crash = [v for v in verdicts if v["kind"] == "crash"]
        self.expect([v["ranks"] for v in crash] == [[1]], "%s: crashes %s" % (name, [v["ranks"] for v in crash]))
        self.expect(any("Xid" in json.dumps(v) for v in crash), "%s: no Xid in the verdict" % name)
        return {"status": done["status"], "seconds": done["seconds"], "text": text["out"], "verdicts": verdicts,
                "end": done["err"][-600:]}

    def wild(self):
        result = self.crash("wild", {})
        result["kernel"] = [line for line in self.run("dmesg")["out"].splitlines() if "Xid" in line][-5:]
        return result

    def root(self, name):
        """A root directory with everything but the kernel log: what a user sees where it may not be read."""
        root = os.path.join(self.place, name)
        library = self.library()
        if not self.expect(library, "%s: no libnvidia-ml.so.1" % name):
            return None
        os.makedirs(os.path.join(root, "usr/lib"))
        os.makedirs(os.path.join(root, "dev"))
        for folder in ("proc", "sys"):
            os.symlink("/" + folder, os.path.join(root, folder))
        os.symlink(library, os.path.join(root, "usr/lib/libnvidia-ml.so.1"))
        return root

    def event(self):
        root = self.root("event-root")
        if not root:
            return None
        return self.crash("event", {"LOCKSTEP_SENSE": "1", "LOCKSTEP_SYSROOT": root, "WILD_ALONE": "1"})

    def part(self, name):
        if name in ("quick", "prolog", "deep"):
            return self.stage(name)
        return getattr(self, name)()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--only", default=PARTS)
    parser.add_argument("--sense-seconds", type=float, default=30)
    parser.add_argument("--burn-seconds", type=int, default=60)
    parser.add_argument("--cost-seconds", type=float, default=15)
    options = parser.parse_args()
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print("skipped: no GPU: %s" % error, file=sys.stderr)
        return 77
    result = {}
    with tempfile.TemporaryDirectory() as place:
        check = Check(os.path.abspath(options.build), place, options.sense_seconds, options.cost_seconds)
        check.burn_seconds = options.burn_seconds
        for name in options.only.split(","):
            begin = time.monotonic()
            try:
                result[name] = check.part(name)
            except Exception as error:  # the other parts are worth their time on the machine
                check.wrong.append("%s: %s: %s" % (name, type(error).__name__, error))
            print("%s: %.1f s" % (name, time.monotonic() - begin), file=sys.stderr, flush=True)
        result["wrong"] = check.wrong
    print(re.sub(r"\n {3,}", " ", json.dumps(result, indent=1)))
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
