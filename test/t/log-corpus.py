# SPDX-License-Identifier: Apache-2.0
"""log-corpus.py check LOGS HALF | floor LOGS HALF SCORE - the recorded excerpts of logs and their score.

check: each excerpt has a line in the table, is in the half that its name gives, and has at most ten lines and a source.
floor: the score (JSON of 'lockstep bench autopsy') is not worse than the line of this half in floor.tsv.
Prints what is wrong; exits 1 then.
"""
import hashlib
import json
import os
import sys


def check(logs, half):
    wrong = []
    folder = os.path.join(logs, half)
    with open(os.path.join(folder, "cases.tsv"), encoding="utf-8") as table:
        lines = [line.rstrip("\n").split("\t") for line in table][1:]
    for line in lines:
        name, source = line[0], line[-1]
        parity = int(hashlib.sha256(name.encode()).hexdigest()[0], 16) % 2
        path = os.path.join(folder, name + ".log")
        if len(line) != 8 or not all(line):
            wrong.append(f"{name}: a column is missing or empty")
        if parity != (half == "scored"):
            wrong.append(f"{name}: belongs into the other half")
        if not source.startswith(("https://", "public repository text ")):
            wrong.append(f"{name}: no source")
        if not os.path.isfile(path):
            wrong.append(f"{name}: no excerpt")
        elif len(open(path, encoding="utf-8").readlines()) > 10:
            wrong.append(f"{name}: more than ten lines")
    named = {line[0] + ".log" for line in lines} | {"cases.tsv"}
    wrong += [f"{name}: not in the table" for name in sorted(set(os.listdir(folder)) - named)]
    return wrong


def floor(logs, half, score):
    with open(score, encoding="utf-8") as file:
        got = json.load(file)["answerable"]
    with open(os.path.join(logs, "floor.tsv"), encoding="utf-8") as table:
        names, *lines = [line.rstrip("\n").split("\t") for line in table]
    limit = next(dict(zip(names, line)) for line in lines if line[0] == half)
    return [f"{what}: {got[what]}, recorded {limit[what]}" for what, sign in (("right", -1), ("wrong", 1), ("silent", 1))
            if sign * got[what] > sign * int(limit[what])]


def main(what, *words):
    wrong = {"check": check, "floor": floor}[what](*words)
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
