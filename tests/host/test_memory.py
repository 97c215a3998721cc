import ctypes
import os
import sys
from pathlib import Path

import pytest

from fleetsim.host.memory import give_back_freed

NUM_BLOCKS, BLOCK_BYTE = 2000, 100_000


def resident_byte() -> int:
    num_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return num_pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="another C library decides by itself what it keeps",
)
def test_freed_blocks_between_blocks_in_use_return_to_the_system():
    blocks = [b"\1" * BLOCK_BYTE for _ in range(NUM_BLOCKS)]
    kept = blocks[::20]
    del blocks
    before = resident_byte()
    give_back_freed()

    assert before - resident_byte() > 0.8 * NUM_BLOCKS * BLOCK_BYTE
    assert all(block == b"\1" * BLOCK_BYTE for block in kept)
