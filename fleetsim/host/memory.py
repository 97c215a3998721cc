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

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_KEPT_BYTE = 1 << 25


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


def keep_freed() -> None:
    """Keep freed memory for later use, as glibc does by default for blocks of up to 32 MiB.

    A process in which `MALLOC_TRIM_THRESHOLD_` is set, as in workers of Dask, gets blocks of 128
    KiB and more from the system and returns each, so that every page is mapped and cleared anew.

    Source: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, _MOST_KEPT_BYTE)
            mallopt(_M_TRIM_THRESHOLD, 2 * _MOST_KEPT_BYTE)


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
