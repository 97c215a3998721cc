"""Colour, dash and marker of every arm, and the colours of a light and a dark page.

The light colours are those of Okabe and Ito (`fleetsim.report.figures.style`), the strongest
first; the dark ones are the same hues, lighter, so that all have a contrast above 4.5 to the page.
Dashes and markers differ too: colour is never the only cue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetsim.record.measures.ledger import COMPONENTS
from fleetsim.report.figures import dark_scheme, style
from fleetsim.report.figures.ledger import ENERGY_OUTCOME_COLORS

LIGHT = (
    style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE, style.BLACK, style.ORANGE,
    style.SKY_BLUE,
)  # fmt: skip
DARK = ("#3D9BE9", "#F07A2B", "#10B98A", "#E39BC4", "#F2F4F6", "#F2C230", "#9BD8FF")
LIGHT_PAPER = "#ffffff"
DARK_PAPER = dark_scheme.PAPER
"""Background of charts; that of cards in the style of the pages."""

LineStyle = str | tuple[int, tuple[float, ...]]
# Dash in plotly, in SVG and in matplotlib.
_DASHES: tuple[tuple[str, str, LineStyle], ...] = (
    ("solid", "", "-"),
    ("dash", "8 4", (0, (5, 2))),
    ("dot", "2 3", (0, (1, 1.5))),
    ("dashdot", "8 3 2 3", (0, (5, 1.5, 1, 1.5))),
    ("longdash", "13 4", (0, (8, 2))),
    ("8px,2px,2px,2px,2px,2px", "8 2 2 2 2 2", (0, (5, 1, 1, 1, 1, 1))),
)
# Marker in plotly and in matplotlib.
_MARKERS = (
    *zip(("circle", "square", "diamond", "triangle-up", "triangle-down"), "osD^v", strict=True),
    *zip(("star", "pentagon", "hexagon"), "*ph", strict=True),
)
MATPLOTLIB_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "---", "+++")
PLOTLY_PATTERNS = ("", "/", ".", "x", "\\", "-", "+")


@dataclass(frozen=True, slots=True)
class ArmStyle:
    """Look of an arm in all figures."""

    number: int
    light: str
    dark: str
    dash: str
    svg_dash: str
    line_style: LineStyle
    marker: str
    point: str
    """Marker in matplotlib."""


def of_arms(arms: tuple[str, ...]) -> dict[str, ArmStyle]:
    """Return the look of each arm; after 42 arms colour and dash repeat together."""
    return {
        arm: ArmStyle(
            number,
            LIGHT[number % len(LIGHT)],
            DARK[number % len(DARK)],
            *_DASHES[number % len(_DASHES)],
            *_MARKERS[number % len(_MARKERS)],
        )
        for number, arm in enumerate(arms)
    }


_COMPONENT_COLORS = {name: style.COMPONENTS[column][1] for name, column in COMPONENTS.items()}
_PART_COLORS = (
    style.ORANGE, style.BLUE, style.SKY_BLUE, style.PURPLE, style.GREY, style.YELLOW, style.GREEN,
    style.VERMILLION,
)  # fmt: skip


def part_colors(parts: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the light and the dark colour of parts of a ledger, known ones as in reports."""
    known = {**_COMPONENT_COLORS, **ENERGY_OUTCOME_COLORS}
    lights = {
        part: known.get(part, _PART_COLORS[number % len(_PART_COLORS)])
        for number, part in enumerate(parts)
    }
    return {part: (light, dark_scheme.on_dark(light)) for part, light in lights.items()}


def translucent(color: str, alpha: float) -> str:
    """Return a colour #rrggbb with an alpha.

    >>> translucent("#0072B2", 0.2)
    'rgba(0,114,178,0.2)'
    """
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def palette(looks: Mapping[str, ArmStyle], *, is_dark: bool) -> dict[str, str]:
    """Return colours by the names that the charts use for them."""
    colors = {
        "ink": "#e6e9ec" if is_dark else "#1d2329",
        "soft": "#a2adb7" if is_dark else "#5b6670",
        "line": "#3a434b" if is_dark else "#d9dee3",
        "paper": DARK_PAPER if is_dark else LIGHT_PAPER,
    }
    for look in looks.values():
        color = look.dark if is_dark else look.light
        colors[f"arm{look.number}"] = color
        colors[f"arm{look.number}-pale"] = translucent(color, 0.65)
        colors[f"arm{look.number}-band"] = translucent(color, 0.2 if is_dark else 0.14)
    return colors
