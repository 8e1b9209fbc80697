#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""outcomes - checks the orders of a run: each was carried out at most once, or is reported as not carried out.

   outcomes LOG SPOOL...

LOG is the controller's, whose decisions were ordered; a SPOOL is the journal of whoever carries them out.  Reads frames as
docs/frame-format.md describes them, and nothing else.  Prints a line for each decision and a summary; exits 0 when all is well.
"""
import struct
import sys

DECISION, OUTCOME = 22, 23
ORDERED, UNKNOWN, DONE = 2, 6, 1


def frames(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at + 44 <= len(data):
        magic, size, kind = struct.unpack_from("<IIH", data, at)
        assert magic == 0x31534C46, (path, at)
        if at + 44 + size > len(data):
            return
        yield kind, struct.unpack_from("<Q", data, at + 16)[0], data[at + 44:at + 44 + size]
        at += 44 + size


def text(payload, at):
    size, = struct.unpack_from("<H", payload, at)
    return payload[at + 2:at + 2 + size].decode(), at + 2 + size


def outcome(payload):
    decision, at = text(payload, 8)
    part, at = text(payload, at)
    result, _, ended = struct.unpack_from("<Bqq", payload, at)
    return decision, part, result, ended


ordered, last_state, wrong = [], {}, []
for kind, _, payload in frames(sys.argv[1]):
    if kind == DECISION:
        decision, at = text(payload, 0)
        _, at = text(payload, at)
        state = payload[at + 1]
        last_state[decision] = state
        if state == ORDERED and decision not in ordered:
            ordered.append(decision)
begun, ended, done = {}, {}, {}
for path in sys.argv[2:]:
    for kind, _, payload in frames(path):
        if kind != OUTCOME:
            continue
        decision, part, result, end = outcome(payload)
        key = (decision, path)
        if part.startswith("rank "):
            if result == DONE:
                done.setdefault((decision, part), []).append(path)
        elif end == 0:
            begun[key] = begun.get(key, 0) + 1
        else:
            ended[key] = ended.get(key, 0) + 1
for (decision, path), count in begun.items():
    if count > 1:
        wrong.append("%s was begun %d times in %s" % (decision, count, path))
    if (decision, path) not in ended:
        wrong.append("%s was begun and has no end in %s" % (decision, path))
for (decision, part), count in done.items():
    if len(count) > 1:
        wrong.append("%s did %s %d times" % (part, decision, len(count)))
for decision in {key[0] for key in begun} - set(ordered):
    wrong.append("%s was begun and never ordered" % decision)
for decision in ordered:
    reported = any(key[0] == decision for key in ended)
    if not reported and last_state[decision] == ORDERED:
        wrong.append("%s was ordered, and nothing says what became of it" % decision)
for line in wrong:
    print(line)
print("%d ordered, %d begun, %d faults" % (len(ordered), len(begun), len(wrong)))
sys.exit(1 if wrong or not ordered else 0)
