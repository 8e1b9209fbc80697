# SPDX-License-Identifier: Apache-2.0
"""whatif-compare.py OUT DIR - holds `lockstep whatif --json --steps` against published results.

DIR has result-ST.json, ms-ST.json and mw-ST.json.  Every number in them is compared, to 1e-4; exit 1
when one differs or is missing, or when there was nothing to compare.
"""
import json
import sys

TOLERANCE = 1e-4

ours = json.load(open(sys.argv[1]))
result, last_stage, worst = (
    json.load(open(f"{sys.argv[2]}/{name}-ST.json")) for name in ("result", "ms", "mw"))
by_step = {str(step["step"]): step for step in ours["by_step"]}
compared, worst_distance, bad = 0, 0.0, []


def same(what, value, expected):
    global compared, worst_distance
    compared += 1
    distance = abs(value - expected)
    worst_distance = max(worst_distance, distance)
    if not distance <= TOLERANCE:
        bad.append(f"{what}: {value}, published {expected}")


def same_all(what, values, expected):
    for key, value in expected.items():
        same(f"{what} {key}", values[key], value)


PARTS = {"dp_rank": "S_dp", "stage": "S_stage", "optype": "S_kind"}
same("S", ours["S"], result["blocking_slowdown"])
same("waste", ours["waste"], 1 - 1 / result["blocking_slowdown"])
same("launch", ours["launch"], result["launch_slowdown"])
for theirs, name in PARTS.items():
    same_all(name, ours[name], result[f"blocking_decompose_by_{theirs}"])
    for step, values in result[f"blocking_decompose_by_{theirs}_per_step"].items():
        same_all(f"step {step} {name}", by_step[step][name], values)
for theirs, name in {"step_t_base": "traced", "step_t_nodelay": "no_delay", "step_t_noblk": "ideal",
                     "blocking_step_slowdown": "S", "launch_step_slowdown": "launch"}.items():
    for step, value in result[theirs].items():
        same(f"step {step} {name}", by_step[step][name], value)
for published, name, total in ((last_stage, "last_stage", "M_S"), (worst, "worst_workers", "M_W")):
    same(total, ours[total], published["rem"])
    same(f"{name} added", ours[name]["added"], published["add"])
    same(f"{name} without", ours[name]["seconds_without"], published["trem"])
    same(f"{name} only", ours[name]["seconds_only"], published["tadd"])
    same("no delay", ours["seconds_per_step"]["no_delay"], published["tori"])
    same("ideal", ours["seconds_per_step"]["ideal"], published["tideal"])

print("\n".join(bad[:20]))
print(f"{compared} numbers compared, {len(bad)} differ by more than {TOLERANCE}, "
      f"largest difference {worst_distance:.2g}")
sys.exit(bool(bad) or not compared)
