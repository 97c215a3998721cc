import ctypes
import os
import subprocess
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


REUSE = """
import resource, sys
import numpy as np
from fleetsim.host.memory import keep_freed

if sys.argv[1] == "keep":
    keep_freed()
np.ones(200_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    np.ones(200_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"),
    reason="another C library decides by itself what it keeps",
)
def test_large_blocks_are_used_again_where_the_environment_sends_them_back_to_the_system():
    """The setting is that of Dask's workers. A block is of 390 pages of 4 KiB."""

    def num_faults(word: str) -> int:
        command = [sys.executable, "-c", REUSE, word]
        environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
        return int(subprocess.check_output(command, env=environment))

    assert num_faults("return") > 50 * 390
    assert num_faults("keep") < 5 * 390
