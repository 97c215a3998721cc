"""Libraries that a run does not import, since they cost seconds and memory."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import fleetsim
scenario = fleetsim.load("synthetic-fedprox", ["stop.rounds=2", "checkpoint.every_rounds=1"])
fleetsim.run(scenario, out=sys.argv[1])
print(*({"matplotlib", "scipy", "networkx", "torch._dynamo", "sympy"} & set(sys.modules)))
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
