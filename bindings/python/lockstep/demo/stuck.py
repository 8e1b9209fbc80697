# SPDX-License-Identifier: Apache-2.0
"""Ways never to come back: a loader, code, the interpreter's lock, a link, memory that is not there.

Each is the thing itself, in this process, and none returns but frozen_link().
"""
import ctypes
import os
import socket
import struct
import sys
import threading
import time

SO_ATTACH_FILTER = 26
OOM_LIMIT, OOM_MOST, OOM_PREFIX = 32 << 20, 256 << 20, "lockstep-oom-"
OOM_PAUSE_S = 0.064  # a leak of 16 MiB/s: an agent, which looks once a second, sees it in its group


def forever():
    while True:
        time.sleep(3600)


def gil():
    """A thread calls into C and keeps the interpreter's lock: no other thread of Python runs again."""
    held = threading.Thread(target=lambda: ctypes.PyDLL(None).sleep(1 << 30), daemon=True)
    held.start()
    forever()


# ---- a link ----

def _connections():
    """Our TCP connections but those to the rendezvous."""
    store = int(os.environ.get("MASTER_PORT", 0))
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        with one:
            try:
                ends = one.getsockname()[1], one.getpeername()[1]
            except (OSError, IndexError, TypeError):
                continue
            if one.type == socket.SOCK_STREAM and store not in ends:
                yield one


def frozen_link():
    """From now on nothing that peers send arrives: a filter on our connections drops it.

    All enter the next collective, and nothing moves.
    """
    drop = struct.pack("HBBI", 0x06, 0, 0, 0)  # "return 0": no byte of the packet is kept
    code = ctypes.create_string_buffer(drop, len(drop))
    program = struct.pack("HL", 1, ctypes.addressof(code))
    cut = 0
    for one in _connections():
        one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        cut += 1
    if cut == 0:
        sys.exit("fault frozen-link: no connection to a peer was found")


# ---- memory ----

def _enter_small_group():
    """A control group with room for OOM_LIMIT bytes more; v1, then v2."""
    for mount, limit, swap in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", None),
                               ("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
                               ("/sys/fs/cgroup/unified", "memory.max", "memory.swap.max")):
        directory = "%s/%s%d" % (mount, OOM_PREFIX, os.getpid())
        try:
            os.mkdir(directory, 0o700)
        except OSError:
            continue
        try:
            for name, text in ((limit, str(OOM_LIMIT)), (swap, "0"), ("cgroup.procs", str(os.getpid()))):
                if name:
                    with open(os.path.join(directory, name), "w") as file:
                        file.write(text)
            return True
        except OSError:
            os.rmdir(directory)
    return False


def memory():
    """Takes more than the group allows; never so much that the machine suffers."""
    if not _enter_small_group():
        sys.exit("fault oom: no memory control group that we may write")
    taken = []
    while len(taken) < OOM_MOST >> 20:
        taken.append(bytearray(b"\x5a") * (1 << 20))
        time.sleep(OOM_PAUSE_S)
