# trace-check.py FILE [NODES RANKS]: whether a Chrome trace keeps the rules of its format; exit 1 with the first offences.
#
# Rules: each event has its members; slices of a thread nest; each arrow has one begin and one end, not earlier, each inside a
# slice of its thread; processes and threads that have events have one name; of a collective nobody leaves before the
# last one enters, but for the error of the clocks that the trace states.
# SPDX-License-Identifier: Apache-2.0
import collections
import gzip
import json
import sys

offences = []


def offend(text):
    offences.append(text)


def nanoseconds(event, member):
    value = event.get(member)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        offend(f"{member} is no number: {event}")
        return 0
    return round(value * 1000)


def check_nesting(thread, slices):
    stack = []
    for begin, end, name in sorted(slices, key=lambda s: (s[0], -s[1])):
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and end > stack[-1]:
            offend(f"thread {thread}: slice {name} ends {end - stack[-1]} ns after the one around it")
        stack.append(end)


def inside(slices, at):
    return any(begin <= at <= end for begin, end, _ in slices)


def check(trace, nodes, ranks):
    slices, names, arrows = collections.defaultdict(list), collections.Counter(), collections.defaultdict(list)
    error_ns = round((trace["otherData"]["clock_error_us"] or 0) * 1000)
    counters = collections.Counter()
    labels = {}
    for event in trace["traceEvents"]:
        kind, thread = event.get("ph"), (event.get("pid"), event.get("tid"))
        if not all(isinstance(number, int) for number in thread):
            offend(f"no pid or tid: {event}")
        if kind == "X":
            begin, length = nanoseconds(event, "ts"), nanoseconds(event, "dur")
            if begin < 0 or length < 0 or not event.get("name"):
                offend(f"a slice before the beginning, of negative length or without a name: {event}")
            slices[thread].append((begin, begin + length, event["name"]))
        elif kind in ("s", "f"):
            arrows[event.get("id")].append((kind, nanoseconds(event, "ts"), thread, event))
        elif kind == "C":
            counters[event["name"]] += 1
            nanoseconds(event, "ts")
            if not isinstance(event["args"]["value"], (int, float)):
                offend(f"a counter without a number: {event}")
        elif kind == "M":
            if event["name"] in ("process_name", "thread_name"):
                key = event["pid"] if event["name"] == "process_name" else thread
                names[key] += 1
                labels[key] = event["args"]["name"]
        else:
            offend(f"unknown kind of event: {event}")
    for thread, list_ in slices.items():
        check_nesting(thread, list_)
        if names[thread] != 1 or names[thread[0]] != 1:
            offend(f"thread {thread} or its process has {names[thread]} and {names[thread[0]]} names")
    for number, ends in arrows.items():
        if sorted(end[0] for end in ends) != ["f", "s"]:
            offend(f"arrow {number} has ends {[end[0] for end in ends]}")
            continue
        first, last = sorted(ends, key=lambda end: end[0] == "f")
        if last[1] < first[1]:
            offend(f"arrow {number} goes back in time by {first[1] - last[1]} ns")
        if last[3].get("bp") != "e":
            offend(f"arrow {number} is bound to the slice after its end")
        for end in (first, last):
            if not inside(slices[end[2]], end[1]):
                offend(f"arrow {number}: no slice of thread {end[2]} at {end[1]} ns")
    left_out = trace["otherData"]["arrows_left_out"]
    if arrows and left_out > len(arrows) // 10:
        offend(f"{left_out} arrows go back in time, of {len(arrows)}: the clocks are not aligned (error {error_ns} ns)")
    if nodes is not None:
        processes = {pid for pid, _ in slices if labels[pid].startswith("node ")}
        hosts = {thread for thread in slices if labels[thread].endswith(" host")}
        if len(processes) != nodes or len(hosts) != ranks:
            offend(f"{len(processes)} nodes and {len(hosts)} ranks, expected {nodes} and {ranks}")
    for name in ("step ms", "loss"):
        if nodes is not None and not counters[name]:
            offend(f"no counter {name}")


def main(arguments):
    opener = gzip.open if arguments[0].endswith(".gz") else open
    with opener(arguments[0], "rt", encoding="utf-8") as file:
        trace = json.load(file)
    check(trace, *(map(int, arguments[1:3]) if len(arguments) > 2 else (None, None)))
    for line in offences[:10]:
        print(line)
    return 1 if offences else 0


sys.exit(main(sys.argv[1:]))
