#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crowd.py - connections that want nothing, or want it very slowly.

  crowd.py idle|drip PORT COUNT [FROM-ADDRESS]

Opens COUNT connections to 127.0.0.1 and keeps them: idle says nothing, drip sends headers without end, a byte
five times a second.  Prints "all N" once each was opened or refused, "left N" when the peer has closed some, "none"
when it has closed every one; ends then, or at the end of its input.
"""
import resource
import select
import socket
import sys
import time

kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
source = (sys.argv[4], 0) if len(sys.argv) > 4 else None
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
poll = select.epoll()
poll.register(0, select.EPOLLIN | select.EPOLLHUP)
sockets, opened, told, left = {}, set(), False, count
request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Drip: "
dripped = 0
for _ in range(count):
    one = socket.socket()
    one.setblocking(False)
    if source:
        one.bind(source)
    one.connect_ex(("127.0.0.1", port))
    sockets[one.fileno()] = one
    poll.register(one.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLHUP)


def forget(fd):
    poll.unregister(fd)
    sockets.pop(fd).close()
    opened.discard(fd)


def send_byte():
    byte = request[dripped:dripped + 1] or b"x"
    for fd in list(opened):
        try:
            sockets[fd].send(byte)
        except OSError:
            forget(fd)


next_drip = time.monotonic()
while sockets:
    for fd, events in poll.poll(0.1):
        if fd == 0:
            sys.exit(0)
        if events & (select.EPOLLHUP | select.EPOLLERR):
            forget(fd)
        elif events & select.EPOLLIN:
            try:
                data = sockets[fd].recv(4096)
            except OSError:
                data = b""
            if not data:
                forget(fd)
        elif fd not in opened:
            opened.add(fd)
            poll.modify(fd, select.EPOLLIN | select.EPOLLHUP)
    if not told and len(opened) == len(sockets):
        told = True
        print("all", len(opened), flush=True)
    if told and len(sockets) != left:
        left = len(sockets)
        print("left", left, flush=True)
    if kind == "drip" and time.monotonic() >= next_drip:
        next_drip += 0.2
        send_byte()
        dripped += 1
print("none", flush=True)
