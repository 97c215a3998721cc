"""Check of the extra `wandb`: an offline run leaves its file."""

import os
from pathlib import Path

os.environ["WANDB_MODE"] = "offline"

import fleetsim

fleetsim.run("quickstart", {"stop.rounds": 2}, trackers=["wandb=w"], out="run")
(saved,) = Path("w").rglob("run-*.wandb")
assert b"energy_j" in saved.read_bytes()
print(f"{saved.name} holds energy_j")
