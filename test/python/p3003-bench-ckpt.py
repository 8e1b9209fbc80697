# SPDX-License-Identifier: Apache-2.0
"""bench/ckpt_torch.py runs, and reports each engine under the names that others script against."""
import json
import os
import subprocess

from tap import BUILD, PYTHON, SOURCE, equal, main, need_torch, test

BENCH = os.path.join(SOURCE, "bench", "ckpt_torch.py")


def bench(place, *options, **environment):
    return subprocess.run([PYTHON, BENCH, "--dir", place, *options], capture_output=True, text=True, timeout=200,
                          env=dict(os.environ, BUILD=BUILD, **environment))


@test
def every_engine_is_measured_or_skipped_with_the_reason(place):
    done = bench(place, "--json", "--mb", "4", "--steps", "6", "--saves", "2", "--rounds", "1")
    equal(done.returncode, 0, done.stderr[-2000:])
    answer = json.loads(done.stdout)
    equal(sorted([*answer["engines"], *answer["skipped"]]), ["dcp.async_save", "dcp.save", "lockstep", "lockstep.begin", "torch.save"])
    assert {"torch.save", "lockstep", "lockstep.begin"} <= set(answer["engines"]), answer
    for name, result in answer["engines"].items():
        for key in "lost_s_per_save", "stall_s", "durable_gbps", "restore_gbps":
            assert isinstance(result[key], float), (name, key, result)
        assert result["stall_s"] > 0 and result["durable_gbps"] > 0 and result["restore_gbps"] > 0, (name, result)
    assert answer["bytes"] > 2e6, answer
    assert answer["limits"].get("raw_refused") or answer["limits"]["raw_write_gbps"] > 0, answer["limits"]
    assert answer["engines"]["lockstep"]["verified_s"] > 0, answer
    equal(os.listdir(place), [], "left behind")


@test
def a_writer_that_is_still_removing_old_points_is_waited_for(place):
    done = bench(place, "--json", "--mb", "4", "--steps", "4", "--saves", "2", "--rounds", "2", "--engine", "lockstep",
                 LD_PRELOAD=os.path.join(BUILD, "test", "libckpt-fault.so"), CKPT_FAULT="unlink")
    equal(done.returncode, 0, done.stderr[-2000:])
    equal(os.listdir(place), [], "left behind")


@test
def wrong_numbers_are_refused(place):
    done = bench(place, "--steps", "3", "--saves", "2")
    equal(done.returncode, 2)
    assert "--steps twice --saves" in done.stderr, done.stderr


need_torch()
main()
