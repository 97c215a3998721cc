"""Colours and dashes of arms, as people with any form of colour blindness see them."""

from itertools import combinations

import numpy as np
import pytest

from fleetsim.studies.page import arm_styles

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision
# deficiency", IEEE TVCG 15(6), 2009: severity 1.0, on linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# IEC 61966-2-1: linear sRGB to XYZ, and the white of D65.
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(color: str) -> np.ndarray:
    values = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """Contrast by WCAG 2."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("colors", [arm_styles.LIGHT, arm_styles.DARK], ids=["light", "dark"])
def test_any_two_colors_differ_for_every_vision(vision: str, colors: tuple[str, ...]):
    seen = [lab(VISIONS[vision] @ linear(color)) for color in colors]
    least = min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2))

    # A difference (CIE 1976) of 2.3 is just noticeable.
    assert least > 14.0


def test_lines_contrast_with_the_page():
    # WCAG 2.1, 1.4.11 asks for 3; orange and sky blue have less on white, and come last.
    assert min(contrast(color, arm_styles.LIGHT_PAPER) for color in arm_styles.LIGHT[:5]) > 3.0
    assert min(contrast(color, arm_styles.DARK_PAPER) for color in arm_styles.DARK) > 4.5


def test_arms_differ_without_colors_too():
    looks = list(arm_styles.of_arms(tuple(map(str, range(24)))).values())

    assert len({(look.dash, look.marker) for look in looks}) == 24
    assert len({(look.light, look.dash) for look in looks}) == 24


def test_both_palettes_have_the_same_names():
    looks = arm_styles.of_arms(("a", "b"))
    light, dark = (arm_styles.palette(looks, is_dark=is_dark) for is_dark in (False, True))

    assert light.keys() == dark.keys()
    assert light["paper"] != dark["paper"]
