# SPDX-License-Identifier: Apache-2.0
"""load.py - how much of this machine's processors other programs take while a test runs.

Others are the processes that do not belong to the test, and a hypervisor that runs other machines.  A process belongs
to the test when it descends from the process PID, or when its environment names the test's own folder: a daemon that a
test leaves behind has init as its parent.  Kernel threads are left out: they work for the test as for anybody.  With a
process's time goes that of its children that it has waited for, so those count that begin and end between two looks.

usage: load.py PID FOLDER FILE     writes to FILE the largest share of any second so far, in percent, until it is killed
"""
import os
import sys
import time

LIMIT_PERCENT = 25  # in a single second; a test that judges real time holds with less
TRIALS = 3
KERNEL_THREAD = 0x00200000


def read_stat(pid):
    """(parent, start, ticks), or None for a kernel thread and for a process that is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(words) < 20 or int(words[6]) & KERNEL_THREAD:
        return None
    return int(words[1]), int(words[19]), sum(int(word) for word in words[11:15])


def names_folder(pid, folder):
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return folder in file.read()
    except OSError:
        return False


def stolen_ticks():
    with open("/proc/stat") as file:
        return int(file.readline().split()[8])


class Load:
    """The largest share that others took in a second, since it was made."""

    def __init__(self, pid, folder):
        self.pid, self.folder, self.known = pid, os.fsencode(folder), {}
        self.most_percent = 0.0
        self.ticks, self.at = self.foreign_ticks(), time.monotonic()

    def foreign_ticks(self):
        processes = {}
        for name in os.listdir("/proc"):
            one = read_stat(int(name)) if name.isdigit() else None
            if one:
                processes[int(name)] = one
        self.known = {key: ours for key, ours in self.known.items()
                      if key[0] in processes and processes[key[0]][1] == key[1]}
        return stolen_ticks() + sum(one[2] for pid, one in processes.items() if not self.is_ours(pid, processes))

    def is_ours(self, pid, processes):
        if pid == self.pid or pid == os.getpid():
            return True
        if pid not in processes:
            return False
        parent, start, _ = processes[pid]
        if self.is_ours(parent, processes):
            self.known[pid, start] = True  # also when it loses its parent
        elif (pid, start) not in self.known:
            self.known[pid, start] = names_folder(pid, self.folder)
        return self.known[pid, start]

    def look(self):
        """Once a second.  Who ends without a parent that waits takes its time with it: then the sum falls."""
        ticks, now = self.foreign_ticks(), time.monotonic()
        whole = (now - self.at) * os.sysconf("SC_CLK_TCK") * os.cpu_count()
        # The look itself takes a while, on a busy machine: a second may seem shorter than it was.
        self.most_percent = max(self.most_percent, min(100, 100 * (ticks - self.ticks) / whole))
        self.ticks, self.at = ticks, now


def main(pid, folder, path):
    load = Load(int(pid), folder)
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)  # the length of what is measured
        load.look()
        with open(path + ".new", "w") as file:
            file.write("%d\n" % load.most_percent)
        os.replace(path + ".new", path)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except FileNotFoundError:  # the test is over, and its folder gone
        pass
