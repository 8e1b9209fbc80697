# SPDX-License-Identifier: Apache-2.0
"""The callbacks inside the real packages: Lightning and Hugging Face's Trainer.

Each program below runs twice in a process of its own, without and with lockstep attached; losses must be the
same bit by bit, and the ring must hold the trainer's own steps.  Lightning is run twice: with the
callback given, and found by itself through its entry point.  Prints one JSON object; exits 1 when
something differs, 77 when neither package is there.

    python3 test/gpu/trainers_check.py [--lib build/liblockstep.so.0]
"""
import argparse
import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter

SOURCE = os.environ.get("SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(SOURCE, "bindings", "python")
sys.path.insert(0, os.path.join(SOURCE, "test", "python"))

import ring  # noqa: E402

STEPS, ACCUMULATE = 6, 2

LIGHTNING = r"""
import os, sys, torch
import %(package)s as pl
from torch.utils.data import DataLoader
torch.manual_seed(3)
losses = []
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(16, 4)
    def training_step(self, batch, index):
        loss = self.layer(batch).square().mean(); losses.append(loss.item().hex()); return loss
    def validation_step(self, batch, index):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)
data = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
callbacks = []
if os.environ.get("CHECK_GIVEN") == "1":
    import lockstep.lightning
    callbacks = [lockstep.lightning.Callback()]
trainer = pl.Trainer(max_steps=%(steps)d, accumulate_grad_batches=%(accumulate)d, accelerator="cpu", devices=1, logger=False,
                     enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                     callbacks=callbacks, default_root_dir=os.environ["CHECK_DIR"], limit_val_batches=2,
                     val_check_interval=4)
trainer.fit(Model(), DataLoader(data, batch_size=4), DataLoader(data, batch_size=4))
print("CALLBACK", [type(one).__module__ for one in trainer.callbacks if "lockstep" in type(one).__module__])
print("LOSSES", losses)
"""

TRANSFORMERS = r"""
import os, torch
from transformers import Trainer, TrainingArguments
torch.manual_seed(3)
losses = []
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(16, 4)
    def forward(self, x=None, labels=None, **rest):
        loss = self.layer(x).square().mean(); losses.append(loss.item().hex()); return {"loss": loss}
data = [{"x": torch.randn(16, generator=torch.Generator().manual_seed(i))} for i in range(64)]
arguments = dict(output_dir=os.environ["CHECK_DIR"], max_steps=%(steps)d, per_device_train_batch_size=4,
                 gradient_accumulation_steps=%(accumulate)d, report_to=[], save_strategy="no", logging_steps=2,
                 disable_tqdm=True, remove_unused_columns=False, dataloader_num_workers=0, use_cpu=True)
callbacks = []
if os.environ.get("CHECK_GIVEN") == "1":
    import lockstep.transformers
    callbacks = [lockstep.transformers.Callback]
trainer = Trainer(model=Model(), args=TrainingArguments(**arguments), train_dataset=data, callbacks=callbacks)
trainer.train()
print("CALLBACK", [type(one).__module__ for one in trainer.callback_handler.callbacks
                   if "lockstep" in type(one).__module__])
print("LOSSES", losses)
"""

# name: (package that must be there, script, the callback is given by hand)
PROGRAMS = {
    "lightning": ("lightning", LIGHTNING, True),
    "lightning-found": ("lightning", LIGHTNING, False),
    "pytorch_lightning": ("pytorch_lightning", LIGHTNING, True),
    "transformers": ("transformers", TRANSFORMERS, True),
}


def metadata(where):
    """What pip leaves beside the package: its entry points."""
    place = os.path.join(where, "lockstep-0.1.0.dist-info")
    os.makedirs(place)
    with open(os.path.join(place, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\nName: lockstep\nVersion: 0.1.0\n")
    with open(os.path.join(place, "entry_points.txt"), "w") as file:
        for package in ("lightning.pytorch", "pytorch_lightning"):
            file.write("[%s.callbacks_factory]\nlockstep = lockstep.lightning:callbacks\n" % package)


def run(text, given, attach, lib):
    with tempfile.TemporaryDirectory() as where:
        script = os.path.join(where, "train.py")
        with open(script, "w") as file:
            file.write(text)
        env = dict(os.environ, CHECK_DIR=os.path.join(where, "out"), CUDA_VISIBLE_DEVICES="")
        if attach:
            metadata(where)
            path = [os.path.join(PACKAGE, "lockstep", "site"), PACKAGE, where]
            env.update(LOCKSTEP_DIR=os.path.join(where, "rings"), LOCKSTEP_RUN="check", LOCKSTEP_LIB=lib,
                       LOCKSTEP_DEBUG="1", PYTHONPATH=os.pathsep.join(path), CHECK_GIVEN="01"[given])
            os.makedirs(env["LOCKSTEP_DIR"])
        done = subprocess.run([sys.executable, script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=240)
        lines = dict(line.split(" ", 1) for line in done.stdout.splitlines()
                     if line.split(" ", 1)[0] in ("CALLBACK", "LOSSES"))
        rings = [counts(path) for path in sorted(glob.glob(os.path.join(where, "rings", "*.ring")))]
        return {"status": done.returncode, "losses": lines.get("LOSSES"), "callback": lines.get("CALLBACK"),
                "rings": rings, "error": done.stderr[-800:] if done.returncode else "",
                "said": [line for line in done.stderr.splitlines() if "lockstep:" in line][:5]}


def counts(path):
    found = ring.Ring(path)
    phases = Counter(event.detail for event in found.events if event.kind == "phase_begin")
    return {"steps": found.steps(), "phases": dict(phases), "lost": found.lost}


def check(name, lib):
    package, text, given = PROGRAMS[name]
    module = {"lightning": "lightning.pytorch"}.get(package, package)
    text = text % {"package": module, "steps": STEPS, "accumulate": ACCUMULATE}
    plain, ours = run(text, given, False, lib), run(text, given, True, lib)
    steps = ours["rings"][0]["steps"] if ours["rings"] else []
    return {"status": [plain["status"], ours["status"]], "callback": ours["callback"],
            "same": plain["status"] == ours["status"] == 0 and plain["losses"] == ours["losses"] is not None,
            "steps_right": steps == list(range(STEPS)) and "lockstep" in (ours["callback"] or ""),
            "rings": ours["rings"], "said": ours["said"], "error": ours["error"] or plain["error"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", default=os.path.join(SOURCE, "build", "liblockstep.so.0"))
    given = parser.parse_args()
    result = {"programs": {}}
    for name, (package, _, _) in PROGRAMS.items():
        if importlib.util.find_spec(package) is None:
            result["programs"][name] = {"skipped": "no " + package}
            continue
        result[package] = __import__("importlib.metadata", fromlist=["version"]).version(
            package.replace("_", "-"))
        result["programs"][name] = check(name, os.path.abspath(given.lib))
    print(json.dumps(result, indent=1))
    ran = [one for one in result["programs"].values() if "skipped" not in one]
    if not ran:
        return 77
    return 0 if all(one["same"] and one["steps_right"] for one in ran) else 1


if __name__ == "__main__":
    sys.exit(main())
