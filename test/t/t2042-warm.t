#!/bin/sh
# --warm: at a restart a standby that has imported torch becomes the rank; without one it starts cold and says why.
# SPDX-License-Identifier: Apache-2.0
. "$SOURCE/test/t/tap.sh"

python=
for one in ${LOCKSTEP_PYTHON:-} python3 /usr/bin/python3; do
    [ -z "$python" ] && "$one" -c 'import torch' 2>/dev/null && python=$one
done
[ -n "$python" ] || skip_all "no torch here"

LOCKSTEP_WARM_HURRY=1 # else a standby takes a fifth of a processor
export LOCKSTEP_WARM_HURRY
cat >"$TAP/train.py" <<'END'
import os, signal, sys, time
warm = "torch" in sys.modules
import torch
import torch.distributed as dist
here, rank, attempt = sys.argv[1], int(os.environ["RANK"]), int(os.environ["LOCKSTEP_RESTART"])
dist.init_process_group("gloo")
print("attempt", attempt, "warm" if warm else "cold", __name__, len(sys.argv), flush=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
for step in range(20 if attempt else 100000):
    model(torch.randn(4, 8)).sum().backward()
    time.sleep(0.02)  # a step takes time
    if attempt == 0 and rank == 1 and os.path.exists(here):
        os.kill(os.getpid(), signal.SIGKILL)
END

train() # NAME: in the background
{
    timeout -k 5 200 "$LOCKSTEP" run --warm --name "$1" --max-restarts 1 --grace 2s -n 2 -- \
        "$python" "$TAP/train.py" "$TAP/kill-$1" >"$TAP/$1.out" 2>"$TAP/$1.err" &
    job=$!
    await test -e "$TAP/state/runs/$1/warm.ready"
    tap_result $? "standby processes get ready"
}

train warm
touch "$TAP/kill-warm"
wait "$job"
tap_result $? "a rank that is killed is restarted, and the job ends well"
is "all ranks are warm" "$(grep -c 'attempt 1 warm __main__ 2' "$TAP/warm.out")" 2
lacks "nothing is said of cold starts" 'started cold' "$TAP/warm.err"
"$LOCKSTEP" why warm >"$TAP/out"
has "the steps of the restarted ranks are observed" '^  first new step after [0-9.]+ s: detect ' "$TAP/out"

train cold
for pid in $(pgrep -f "standby.py $TAP/state/runs/cold/"); do
    kill -KILL "$pid"
done
touch "$TAP/kill-cold"
wait "$job"
tap_result $? "standby processes that were killed stop nobody"
has "both ranks train again" 'attempt 1 ' "$TAP/cold.out"
gone() { ! pgrep -f "$TAP/train.py" >/dev/null; }
await gone
tap_result $? "nothing is left running"

ok "a command that is not python" "$LOCKSTEP" run --warm -n 1 -- sh -c 'exit 0'
has "is said" '^lockstep run: --warm has no effect: the command is not python$' "$TAP/err"
done_testing
