"""Libraries that a run does not import, since they cost seconds and memory."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import fleetsim
scenario = fleetsim.load("synthetic-fedprox", ["stop.rounds=2", "checkpoint.every_rounds=1"])
fleetsim.run(scenario, out=sys.argv[1])
from torch import nn
from fleetsim.learning.kernels.conv.channels_last import form_of
form_of(nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2)), (3, 8, 8), 1)
unused = {"matplotlib", "scipy", "networkx", "torch._dynamo", "sympy", "numba"}
print(*(unused & set(sys.modules)))
"""
HELP = """
import sys
from fleetsim import cli
sys.argv = ["fleetsim", "--help"]
try:
    cli.main()
finally:
    print("heavy:", *({"pandas", "scipy", "networkx", "torch", "pydantic"} & set(sys.modules)))
"""


def test_a_run_needs_neither_scipy_nor_networkx_nor_torchs_compiler(tmp_path):
    """Nor numba, unless a network has layers for its loops: it takes 0.4 s and 50 MiB."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == []


def test_help_waits_for_no_library():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "heavy:"
