"""Description of the processor."""

import pytest

from fleetsim.kernels.cpu import processor


@pytest.mark.parametrize(
    ("vendor", "family", "found"),
    [("AuthenticAMD", 26, 26), ("AuthenticAMD", 25, 25), ("GenuineIntel", 26, 0)],
)
def test_the_family_is_read_from_the_first_processor(vendor: str, family: int, found: int) -> None:
    one = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 2\n"

    assert processor.amd_family(f"{one}\n{one}") == found


@pytest.mark.parametrize("text", ["", "processor\t: 0\nCPU implementer\t: 0x41\n"])
def test_processors_of_other_makers_are_left_to_torch(text: str) -> None:
    assert processor.amd_family(text) == 0


def test_instructions_have_to_be_on_every_processor() -> None:
    new, old = "flags\t\t: fpu avx2 avx512_vnni\n", "flags\t\t: fpu avx2\n"

    assert processor.has_flag(new + "\n" + new, "avx512_vnni")
    assert not processor.has_flag(new + "\n" + old, "avx512_vnni")
    assert not processor.has_flag(new, "avx512")
    assert not processor.has_flag("", "fpu")
