"""Libraries that a command or a run does not import, since they cost seconds and memory."""

import subprocess
import sys

import pytest

BEGIN = """
import contextlib, io, pydoc, sys
import fleetsim

def imported(*names):
    print(*(name for name in names if name in sys.modules), sep=",")

imported("numpy", "torch")
"""
RUN = """
from fleetsim import cli
sys.argv = ["fleetsim", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    cli.main()
imported("pandas", "scipy", "networkx", "torch", "pydantic")

sys.argv = ["fleetsim", "validate", "quickstart", "--quiet"]
with contextlib.suppress(SystemExit):
    cli.main()
imported("torch", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "requests")

small = ["server.cohort=5", "stop.rounds=2", "checkpoint.every_rounds=1"]
fleetsim.run(fleetsim.load("synthetic-fedprox", small), out="run")

from torch import nn
from fleetsim.kernels.conv.channels_last import form_of
form_of(nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2)), (3, 8, 8), 1)
imported("matplotlib", "scipy", "sklearn", "networkx", "torch._dynamo", "sympy", "numba")
"""
SHOW = """
dir(fleetsim)
imported("pydantic")
pydoc.render_doc(fleetsim)
imported("torch", "matplotlib")
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [RUN, SHOW], ids=["run", "show"])
def test_a_program_imports_no_more_than_it_needs(program, tmp_path):
    """Nor numba, unless a network has layers for its loops: it takes 0.4 s and 50 MiB."""
    words = [sys.executable, "-c", BEGIN + program]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout == "\n" * f"{BEGIN}{program}".count("\nimported(")
