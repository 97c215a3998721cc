import ctypes
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetsim.host.memory import give_back_freed, page_out

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


@pytest.mark.skipif(sys.platform != "linux", reason="no advice is given elsewhere")
def test_pages_of_a_mapped_file_return_to_the_system_and_are_read_again(tmp_path):
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, check=True)
    if kind.stdout.strip() == b"tmpfs":
        pytest.skip("files in memory have nowhere else to go")
    path = tmp_path / "liblarge.so"
    with path.open("wb") as file:
        file.write(b"\1" * 50_000_000)
        os.fsync(file.fileno())
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        assert mapped[::4096] == b"\1" * 12_208
        before = resident_byte()
        page_out("libother")
        between = resident_byte()
        page_out("liblarge")

        assert abs(before - between) < 5_000_000
        assert before - resident_byte() > 45_000_000
        assert mapped[::4096] == b"\1" * 12_208
