"""Libraries that a command or a run does not import, since they cost seconds and memory."""

import subprocess
import sys

import pytest

PROGRAM = """
import contextlib, io, sys
from fleetsim import cli

def imported(*names):
    print(*(name for name in names if name in sys.modules), sep=",")

sys.argv = ["fleetsim", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    cli.main()
imported("pandas", "scipy", "networkx", "torch", "pydantic")

import fleetsim
fleetsim.load("quickstart")
imported("torch", "pandas", "sklearn")

small = ["server.cohort=5", "stop.rounds=2", "checkpoint.every_rounds=1"]
fleetsim.run(fleetsim.load("synthetic-fedprox", small), out=sys.argv[-1])

from torch import nn
from fleetsim.kernels.conv.channels_last import form_of
form_of(nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2)), (3, 8, 8), 1)
imported("matplotlib", "scipy", "networkx", "torch._dynamo", "sympy", "numba")
"""


@pytest.mark.slow
def test_help_a_scenario_and_a_run_import_no_more_than_they_need(tmp_path):
    """Nor numba, unless a network has layers for its loops: it takes 0.4 s and 50 MiB."""
    program = PROGRAM.replace("sys.argv[-1]", repr(str(tmp_path / "run")))

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "\n\n\n"
