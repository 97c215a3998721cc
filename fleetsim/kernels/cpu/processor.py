"""Description of the machine's processor, as far as numerical libraries depend on it.

Every `text` is that of `cpuinfo`.
"""

import re
from functools import lru_cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
"""File in which Linux describes the processors."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Folder in which Linux describes the caches of the first core."""
_DECIDING_FLAGS = re.compile(r"avx\w*|fma\w*|f16c|sse\w*|bmi\d|amx\w*|sve\w*|asimd\w*|bf16|i8mm")
"""Instruction sets that libraries check for, by Linux's names."""


@lru_cache(maxsize=1)
def cpuinfo() -> str:
    """Return Linux's description of the processors; an empty text on other systems."""
    return _CPUINFO.read_text(encoding="utf-8") if _CPUINFO.exists() else ""


def amd_family(text: str) -> int:
    """Return AMD's number of the processor's family; 0 for other makers."""
    fields = dict(re.findall(r"^(vendor_id|cpu family)\s*:\s*(\S+)", text, re.MULTILINE))
    return int(fields.get("cpu family", 0)) if fields.get("vendor_id") == "AuthenticAMD" else 0


def has_flag(text: str, flag: str) -> bool:
    """Return whether every processor has an instruction set."""
    lines = re.findall(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return bool(lines) and all(flag in line.split() for line in lines)


def model(text: str) -> str:
    r"""Return maker, family and model of the first processor; an empty text if unknown.

    >>> model("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nmodel name : Xeon\n")
    'GenuineIntel family 6 model 143'
    >>> model("")
    ''
    """
    first = text.split("\n\n", 1)[0]
    fields = dict(re.findall(r"^(vendor_id|cpu family|model)\s*:\s*(\S+)", first, re.MULTILINE))
    if "vendor_id" in fields:
        family, number = (fields.get(key, "?") for key in ("cpu family", "model"))
        return f"{fields['vendor_id']} family {family} model {number}"
    # 64-bit Arm.
    parts = dict(re.findall(r"^CPU (implementer|part|variant)\s*:\s*(\S+)", first, re.MULTILINE))
    return " ".join(f"{key} {value}" for key, value in sorted(parts.items()))


def instructions(text: str) -> str:
    r"""Return the instruction sets of all processors that libraries check for, sorted by name.

    >>> instructions("flags : fpu fma avx2\n\nflags : fpu avx2 fma avx512f\n")
    'avx2 fma'
    """
    lines = re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    if not lines:
        return ""
    common = set.intersection(*(set(line.split()) for line in lines))
    return " ".join(sorted(flag for flag in common if _DECIDING_FLAGS.fullmatch(flag)))


def caches(folder: Path = _CACHES) -> str:
    """Return the sizes of the first core's data caches, on which libraries' block sizes depend."""
    sizes = []
    for cache in sorted(folder.glob("index*")):
        kind, level, size = (
            (cache / name).read_text(encoding="ascii").strip() for name in ("type", "level", "size")
        )
        if kind != "Instruction":
            sizes.append(f"L{level} {size}")
    return ", ".join(sizes)
