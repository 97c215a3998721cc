"""A scenario and a device file without fault, and how a fault gets into the scenario."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Lines are counted by hand in what follows: `name` stands in line 1, `stop` in line 24.
GOOD = """\
name: small
seed: 1
task:
  dataset: {kind: digits}
  partition: {kind: iid}
  model: {kind: logistic}
  local:
    epochs: 1
    batch_size: 32
    optimizer: {kind: sgd, learning_rate: 0.1}
fleet:
  size: 8
  devices:
    pixel-6: 0.5
    t2.small: 0.5
  channel: {kind: fading}
  usage: {trace: null}
server:
  cohort: 3
  over_commit: 1.0
  deadline_s: 60
  minimum_reports: 1
  selector: {kind: random}
stop: {rounds: 2}
"""

DEVICE = """\
title: A phone of one's own
kind: phone
compute:
  backend: cpu
  conv_gflop_per_s: {value: 40, source: measured}
  dispatch_s: {value: 0.006, source: measured}
  layer_s: {value: 0.001, source: measured}
  parameter_s_per_mparam: {value: 0.01, source: measured}
  phi:
    depthwise: {value: 0.2, source: measured}
    gemm: {value: 1, source: measured}
    rnn: {value: 0.5, source: measured}
power:
  idle_awake_w: {value: 0.15, source: measured}
  train_above_idle_w: {value: 4.8, source: measured}
wifi:
  receive_w: {value: 0.4, source: measured}
  transmit_w: {value: 1.7, source: measured}
ram_gib: {value: 8, source: measured}
"""

STATES = "user,t_s,online,charging,unmetered,load\n"
USERS = "user,span_s\nann,100\n"


@dataclass(frozen=True)
class Bad:
    """One fault: what takes the place of what in the good scenario, and what must be said."""

    old: str
    new: str
    parts: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    words: tuple[str, ...] = ()


def bad(old: str, new: str, *parts: str, **more) -> Bad:
    return Bad(old, new, parts, **more)


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else None
        for path in folder.rglob("*")
    }


def write(files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def scenario(fault: Bad) -> str:
    """Write the scenario and the files of a fault."""
    assert GOOD.count(fault.old) == 1
    write({"bad.yaml": GOOD.replace(fault.old, fault.new), **fault.files})
    return "bad.yaml"
