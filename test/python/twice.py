# SPDX-License-Identifier: Apache-2.0
"""Runs a user's script twice, without lockstep and attached, and compares all that a user can see:
what it printed, how it ended, the files it left.  The rings of the attached one are given back.
"""
import os
import re
import signal
import socket
import subprocess
import time
from collections import namedtuple

from ring import rings
from tap import BUILD, PYTHON, Skip, equal

SITE = os.path.join(BUILD, "bindings", "python", "lockstep", "site")
Seen = namedtuple("Seen", "status out err files")
STUCK = "did not end"
SECONDS = 100  # that a job may take
TRIES = 3  # of a job that does not end without lockstep either
_OURS = ("LOCKSTEP_DIR", "LOCKSTEP_RUN", "LOCKSTEP_LIB", "LOCKSTEP_ATTACH", "PYTHONPATH", "RANK",
         "WORLD_SIZE")

# A shell that starts us in the background ignores it, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def base_env(place, attached, more=None):
    env = {name: value for name, value in os.environ.items() if name not in _OURS}
    env.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", HOME=place)
    if attached:  # as `lockstep run` sets it
        env.update(PYTHONPATH=SITE, LOCKSTEP_RUN="test", LOCKSTEP_RESTART="0",
                   LOCKSTEP_DIR=os.path.join(place, "rings"))
    env.update(more or {})
    return {name: value for name, value in env.items() if value is not None}


def files_of(directory):
    found = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = file.read()
    return found


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def _same(text, place):
    """Without what differs from run to run: the place, greetings, times, threads and pids in warnings."""
    text = re.sub(r"\(pid=\d+\)", "(pid)", text.replace(place, "PLACE"))
    text = re.sub(r"/tmp\w{8}\b", "/TEMPORARY", text)  # of torch's own
    # Later versions of gloo greet, each rank when it comes to it: where ranks share a file, in any order.
    text = re.sub(r"(?m)^\[\S*gloo/\S+\] INFO Rank .* is connected to .*\n", "", text)
    return re.sub(r"(?m)([IWE])\d{4,8} [0-9:.]+ +(\d+ )?", r"\1 ", text)


class Job:
    """A script's ranks, running."""

    def __init__(self, place, script, attached, ranks=None, argv=(), env=None, stdin=None):
        self.place = os.path.join(place, "attached" if attached else "plain")
        self.work = os.path.join(self.place, "work")
        os.makedirs(self.work)
        path = os.path.join(self.place, "script.py")
        with open(path, "w") as file:
            file.write(script)
        port = free_port()
        self.until = time.monotonic() + SECONDS
        self.ranks = []
        for rank in range(ranks or 1):
            more = dict(env or {})
            if ranks:
                more.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                            MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
            # Files, not pipes: a child that lives on must not keep us waiting, nor a full pipe it.
            out, err = (open(os.path.join(self.place, "%s.%d" % (name, rank)), "w+b")
                        for name in ("out", "err"))
            process = subprocess.Popen([PYTHON, *argv, "../script.py"], cwd=self.work,
                                       env=base_env(self.place, attached, more), stdout=out,
                                       stderr=err, stdin=stdin or subprocess.DEVNULL)
            self.ranks.append((process, out, err))

    def signal_when_asleep(self, number, text):
        """Sends a signal to the first rank once it has printed `text` and sleeps, so that it always hits the same line."""
        process, out, _ = self.ranks[0]
        asleep = 0
        while process.poll() is None and time.monotonic() < self.until and asleep < 3:
            time.sleep(0.02)  # between two looks
            with open(out.name, "rb") as file:
                printed = text.encode() in file.read()
            with open("/proc/%d/stat" % process.pid) as file:
                sleeps = file.read().rsplit(")", 1)[1].split()[0] == "S"
            asleep = asleep + 1 if printed and sleeps else 0
        process.send_signal(number)

    def end(self):
        seen = []
        for process, out, err in self.ranks:
            try:
                status = process.wait(max(0.1, self.until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                status = STUCK
                process.wait()
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(_same(file.read().decode("utf-8", "replace"), self.place))
                file.close()
            seen.append((status, *texts))
        return Seen([s[0] for s in seen], [s[1] for s in seen], [s[2] for s in seen],
                    files_of(self.work))


def attached(place, script, **options):
    """Only with lockstep."""
    job = Job(place, script, True, **options)
    seen = job.end()
    return seen, rings(os.path.join(job.place, "rings"))


def _both(place, script, during, options):
    jobs = [Job(place, script, attached, **options) for attached in (False, True)]
    if during:
        for job in jobs:
            during(job)
    plain, ours = (job.end() for job in jobs)
    return plain, ours, os.path.join(jobs[1].place, "rings")


def _ends_by_itself(place, script, during, options):
    """Whether the job ends without lockstep, as often as we try it."""
    for number in range(TRIES):
        job = Job(os.path.join(place, "alone-%d" % number), script, False, **options)
        if during:
            during(job)
        if STUCK in job.end().status:
            return False
    return True


def twice(place, script, during=None, **options):
    """Both ways at the same time; returns (what was seen, rings of the attached one).

    Some versions of torch do not always end.  A job that did not end without lockstep is nothing to
    compare with: both are tried again, and where none ends the test is skipped, never passed.  One that
    did not end with lockstep alone is a failure, unless the same is seen without it.
    """
    for number in range(TRIES):
        plain, ours, directory = _both(os.path.join(place, "try-%d" % number), script, during, options)
        if STUCK not in plain.status:
            break
        print("# without lockstep the job %s (%s), try %d of %d" %
              (STUCK, plain.status, number + 1, TRIES), flush=True)
    else:
        raise Skip("without lockstep the job %s, in %d tries" % (STUCK, TRIES))
    if STUCK in ours.status and not _ends_by_itself(place, script, during, options):
        raise Skip("the job %s, with lockstep and without" % STUCK)
    for name in Seen._fields:
        equal(getattr(ours, name), getattr(plain, name), name)
    return plain, rings(directory)
