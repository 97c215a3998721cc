"""Description of this machine for a results page."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path

from fleetsim import __version__

_KIB_PER_GIB = 1024**2


def describe() -> dict[str, str]:
    """Return processor, cores, memory, kernel, and versions of Python and libraries."""
    meminfo = Path("/proc/meminfo").read_text(encoding="utf-8")
    return {
        "processor": parse_processor(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        "cores": str(os.cpu_count()),
        "memory": f"{parse_kib(meminfo, 'MemTotal') / _KIB_PER_GIB:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "fleetsim": __version__,
        "torch": metadata.version("torch"),
        "numpy": metadata.version("numpy"),
    }


def parse_processor(cpuinfo: str) -> str:
    r"""Return name, family and model of the first processor in the text of /proc/cpuinfo.

    >>> parse_processor("model name : Some CPU\ncpu family : 6\nmodel : 85\n\nmodel name : x")
    'Some CPU (family 6, model 85)'
    """
    first = cpuinfo.partition("\n\n")[0]
    said = {
        name.strip(): value.strip()
        for name, _, value in (line.partition(":") for line in first.splitlines())
    }
    name = said.get("model name", platform.machine())
    if "cpu family" not in said or "model" not in said:
        return name
    return f"{name} (family {said['cpu family']}, model {said['model']})"


def parse_kib(text: str, name: str) -> int:
    r"""Return the number of a line `NAME: N kB` in the text of a file of /proc; 0 without one.

    >>> parse_kib("Rss: 9999 kB\nPss: 2048 kB\nPss_Anon: 1 kB", "Pss"), parse_kib("", "Pss")
    (2048, 0)
    """
    found = re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else 0
