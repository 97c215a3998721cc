"""What this machine's processor is, as far as the ways to multiply depend on it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
"""Where Linux describes the processors."""


@lru_cache(maxsize=1)
def cpuinfo() -> str:
    """How Linux describes this machine's processors; nothing on other systems."""
    return _CPUINFO.read_text(encoding="utf-8") if _CPUINFO.exists() else ""


def amd_family(text: str) -> int:
    r"""Number that AMD gives to the family of its processor; 0 of other makers.

    Args:
        text: as of `cpuinfo`.

    >>> amd_family("processor : 0\nvendor_id : AuthenticAMD\ncpu family : 26\n")
    26
    >>> amd_family("processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\n")
    0
    """
    said = dict(re.findall(r"^(vendor_id|cpu family)\s*:\s*(\S+)", text, re.MULTILINE))
    return int(said.get("cpu family", 0)) if said.get("vendor_id") == "AuthenticAMD" else 0


def has_flag(text: str, flag: str) -> bool:
    r"""Whether every processor has some instructions.

    Args:
        text: as of `cpuinfo`.
        flag: Linux's name for them.

    >>> has_flag("flags : fpu avx2\n", "avx2"), has_flag("flags : fpu avx2\n", "avx")
    (True, False)
    >>> has_flag("", "avx2")
    False
    """
    lines = re.findall(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return bool(lines) and all(flag in line.split() for line in lines)
