# SPDX-License-Identifier: Apache-2.0
"""The child of seal.py: waits until a directory is quiet and seals it.  Arguments: program, directory, seconds.

It imports nothing of the package: it runs without site-packages, so that it starts fast and no hook sees it.
"""
import fcntl
import os
import select
import subprocess
import sys
import time

MOST_S = 3600  # a directory that never gets quiet is not sealed
DEPTH = 16
SEAL = "lockstep.seal"
HURRY_S = 0.3  # instead of the seconds given, when the program saves nothing further


def look(directory):
    """Changes with every write in the directory."""
    seen = []
    for place, directories, names in os.walk(directory):
        if place[len(directory):].count(os.sep) >= DEPTH:
            directories.clear()
        for name in sorted(names):
            if not name.startswith(SEAL):
                try:
                    found = os.lstat(os.path.join(place, name))
                except OSError:
                    continue
                seen.append((place, name, found.st_size, found.st_mtime_ns))
    return sorted(seen)


def ended(pause_s):
    """Is the program, whose pipe is our input, gone or past its last save?"""
    begin = time.monotonic()
    if select.select([0], [], [], pause_s)[0]:
        time.sleep(max(0.0, pause_s - (time.monotonic() - begin)))
        return True
    return False


def wait_until_quiet(directory, settle_s):
    begin = since = time.monotonic()
    before = look(directory)
    while time.monotonic() - since < settle_s:
        if ended(min(0.2, settle_s / 4)):
            settle_s = min(settle_s, HURRY_S)
        now = look(directory)
        if now != before:
            before, since = now, time.monotonic()
        if time.monotonic() - begin > MOST_S:
            return False
    return bool(before)


def low_priority():
    os.nice(19)
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        pass


def main(program, directory, settle):
    low_priority()
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # the child of another rank waits for the same
    except OSError:
        pass  # a file system without locks: several seal, each replaces the seal as a whole
    while wait_until_quiet(directory, float(settle)):
        before = look(directory)
        done = subprocess.run([program, "ckpt", "seal", "--replace", directory], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if look(directory) != before:
            continue  # saved again meanwhile
        if done.returncode:
            words = (done.stderr + done.stdout).decode(errors="replace").strip().splitlines()
            sys.stderr.write("lockstep: %s is not sealed: %s\n" % (directory, words[0] if words else "status %d" % done.returncode))
        return


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        sys.stderr.write("lockstep: %s is not sealed: %s\n" % (sys.argv[2], error))
