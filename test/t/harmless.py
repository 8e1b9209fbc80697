#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `lockstep why` on each log of harmless-logs.txt and compares the answer with the one that is written there.

usage: harmless.py LOCKSTEP FILE DIRECTORY
"""
import json
import os
import re
import subprocess
import sys


def answer_of(lockstep, path):
    done = subprocess.run([lockstep, "why", "--json", path], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{path}: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout).get("verdicts", [])


def fits(expected, verdicts):
    if expected == "none":
        return not verdicts
    if expected == "weak":
        return all(verdict["confidence"] < 0.5 for verdict in verdicts)
    where, ranks = expected.split()
    kind, layer = where.split("/")
    wanted = [] if ranks == "-" else [int(rank) for rank in ranks.split(",")]
    return bool(verdicts) and verdicts[0]["kind"] == kind and layer in ("*", verdicts[0]["layer"]) \
        and verdicts[0].get("ranks", []) == wanted


def main():
    lockstep, source, directory = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        parts = re.split(r"^### (\S+): (.*)\n", file.read(), flags=re.M)[1:]
    wrong = 0
    for name, expected, log in zip(parts[0::3], parts[1::3], parts[2::3]):
        path = os.path.join(directory, name + ".log")
        with open(path, "w", encoding="utf-8") as file:
            file.write(log)
        verdicts = answer_of(lockstep, path)
        if not fits(expected, verdicts):
            wrong += 1
            first = verdicts[0] if verdicts else {}
            print(f"{name}: expected {expected}, got", *(first.get(key) for key in
                  ("kind", "layer", "ranks", "confidence", "cause")) if first else ("nothing",))
    print(f"{len(parts) // 3} logs, {wrong} wrong")
    return 1 if wrong or len(parts) < 120 else 0


sys.exit(main())
