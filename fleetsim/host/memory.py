"""Memory that this process may use, and its return to the system."""

import ctypes
import os
import sys
from pathlib import Path

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files in which Linux states the limit of a container: control groups of version 2 and 1."""
_MADV_PAGEOUT = 21
"""Of Linux 5.4 and later (linux/mman.h)."""


def usable_byte() -> int | None:
    """Return the machine's memory or the limit of its container; None where it is unknown."""
    limits = [limit for limit in (_physical_byte(), *map(_limit_in, _CGROUP_LIMITS)) if limit]
    return min(limits, default=None)


def give_back_freed() -> None:
    """Return freed memory to the system, where the C library is glibc, which keeps much of it.

    It takes 0.1 ms per MiB that is returned, and the next use of such a page as much again.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # absent from other C libraries, such as musl
            trim(0)


def page_out(library: str) -> None:
    """Return the pages of a loaded library to the system (Linux), which reads them again if needed.

    `library` is a part of its file's name. It takes 20 ms. Pages that other processes use, too, or
    that were changed, stay.
    """
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return
    advise = ctypes.CDLL(None).madvise
    for line in maps.read_text(errors="replace").splitlines():
        addresses, *_, name = line.split()
        if library in name:
            first, end = (int(address, 16) for address in addresses.split("-"))
            # No fault is one: it is advice, which an older kernel refuses.
            advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), _MADV_PAGEOUT)


def _physical_byte() -> int | None:
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _limit_in(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
