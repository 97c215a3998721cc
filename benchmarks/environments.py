"""Virtual environments of the peers, one each, in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.contestants import Peer

_FROZEN = "fleetsim-benchmark.txt"
"""File with the output of pip freeze; written last, so it marks a complete environment."""
_TAIL = 2000


class InstallError(Exception):
    """Failed installation of a peer, with the reason or pip's last output as the message."""


def home() -> Path:
    """Return the folder of environments, data and results: $FLEETSIM_BENCH, or one in the cache."""
    named = os.environ.get("FLEETSIM_BENCH")
    return Path(named) if named else Path.home() / ".cache" / "fleetsim-benchmarks"


def own_torch() -> str:
    """Return the release of torch that fleetsim runs with, without its local label."""
    return metadata.version("torch").partition("+")[0]


def ensure(peer: Peer, folder: Path) -> Path:
    """Install a peer unless it is installed; return its python.

    All peers get the release of torch that fleetsim runs with.

    Raises:
        InstallError: pip failed, or the Python that the peer needs is missing.
    """
    interpreter = sys.executable if peer.interpreter is None else shutil.which(peer.interpreter)
    if interpreter is None:
        raise InstallError(f"it needs {peer.interpreter}, which is not on the PATH")
    environment = folder / peer.name
    python = environment / "bin" / "python"
    frozen = environment / _FROZEN
    wanted = f"# torch=={own_torch()} {peer.requirement}\n"
    if frozen.is_file() and frozen.read_text(encoding="utf-8").startswith(wanted):
        return python
    folder.mkdir(parents=True, exist_ok=True)
    constraints = folder / "constraints.txt"
    constraints.write_text(f"torch=={own_torch()}\n", encoding="utf-8")
    _call([interpreter, "-m", "venv", str(environment)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    pinned = ["install", "--quiet", "-c", str(constraints)]
    _call([*pip, *pinned, f"torch=={own_torch()}", "numpy", peer.requirement])
    frozen.write_text(wanted + _call([*pip, "freeze"]), encoding="utf-8")
    return python


def versions(peer: Peer, folder: Path) -> dict[str, str]:
    """Return the versions of a peer's distributions, from pip freeze."""
    text = (folder / peer.name / _FROZEN).read_text(encoding="utf-8")
    pins = dict(line.split("==", 1) for line in text.splitlines()[1:] if "==" in line)
    return {name: pins[name] for name in (*peer.distributions, "torch") if name in pins}


def _call(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        says = (done.stderr or done.stdout).strip()
        raise InstallError(f"{' '.join(command[:4])} ...: {says[-_TAIL:]}")
    return done.stdout
