"""Colours of figures and arms, as people with a form of colour blindness see them."""

import itertools
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from fleetsim.contracts import FloatArray
from fleetsim.report.figures import style
from fleetsim.report.figures.style import on_dark
from fleetsim.studies.page import arm_styles

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision
# deficiency" (2009), severity 1.0, on linear RGB.
SEEN_WITH: Mapping[str, Sequence[Sequence[float]]] = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
# IEC 61966-2-1, to CIE XYZ with white D65.
TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE = (0.95047, 1.0, 1.08883)
LEAST = 16.0
"""Distance in CIE 1976 L*a*b*; the least between two of the hues of Okabe and Ito is 16.05. A
distance of 2.3 is just noticeable."""


def linear(color: str) -> FloatArray:
    coded = np.array(to_rgb(color))
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def lab(color: str, seen_with: str) -> FloatArray:
    seen = np.clip(np.array(SEEN_WITH[seen_with]) @ linear(color), 0.0, 1.0)
    part = np.array(TO_XYZ) @ seen / np.array(WHITE)
    x, y, z = np.where(part > 216 / 24389, np.cbrt(part), (24389 / 27 * part + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """Contrast by WCAG 2."""
    dark, light = sorted(float(np.array(TO_XYZ[1]) @ linear(color)) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("seen_with", SEEN_WITH)
@pytest.mark.parametrize(
    ("colors", "least"),
    [
        (list(style.OUTCOMES.values()), LEAST),
        ([color for _, color in style.COMPONENTS.values()], LEAST),
        ([color for _, color in style.PHASES.values()], LEAST),
        (style.fill_colors(7), LEAST),
        (arm_styles.DARK, 14.0),
        (list(map(on_dark, style.OUTCOMES.values())), 15.5),
        ([on_dark(color) for _, color in style.COMPONENTS.values()], 15.5),
        (list(map(on_dark, style.fill_colors(7))), 15.5),
    ],
    ids=[*("outcomes", "components", "phases", "series", "arms on a dark page"),
         *("dark outcomes", "dark components", "dark series")],
)  # fmt: skip
def test_no_two_colours_of_a_figure_look_alike(colors: list[str], least: float, seen_with: str):
    places = [lab(color, seen_with) for color in colors]
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(places, 2)]

    assert min(distances) > least


def test_lines_of_arms_contrast_with_the_page():
    # WCAG 2.1, 1.4.11 asks for 3; orange and sky blue have less on white, and come last.
    assert set(arm_styles.LIGHT) == set(style.fill_colors(7))
    assert min(contrast(color, arm_styles.LIGHT_PAPER) for color in arm_styles.LIGHT[:5]) > 3.0
    assert min(contrast(color, arm_styles.DARK_PAPER) for color in arm_styles.DARK) > 4.5


def test_colors_of_dark_figures_contrast_with_their_paper():
    used = [*style.OUTCOMES.values(), *(color for _, color in style.COMPONENTS.values())]
    shades = map(to_hex, matplotlib.colormaps["cividis"](np.linspace(0.0, 1.0, 20)))
    contrasts, rising = (
        [contrast(on_dark(color), style.DARK_PAPER) for color in colors]
        for colors in ({*used} - {style.LIGHT_GREY}, shades)
    )

    assert min(contrasts) > 3.0
    assert rising[0] > 3.0
    assert rising == sorted(rising)
    assert contrast(on_dark(style.INK), on_dark("#ffffff")) > 7.0


def test_arms_differ_without_colors_too():
    looks = list(arm_styles.of_arms(tuple(map(str, range(24)))).values())

    assert len({(look.dash, look.marker) for look in looks}) == 24
    assert len({(look.light, look.dash) for look in looks}) == 24
