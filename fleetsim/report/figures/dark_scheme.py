"""Colours of figures on a dark page.

A figure is drawn once, in the colours of a light page. Its SVG in a page has a rule per colour that
replaces it where the reader prefers a dark scheme, so one picture serves both.
"""

import re

import numpy as np
from matplotlib.colors import to_hex, to_rgb

from fleetsim.report.figures import style

PAPER, INK = "#1b2026", "#e6e9ec"
"""Background and text; those of a card in the style of the pages."""
# The same hues, as far apart for all forms of colour blindness as on white, with a contrast above 3
# to the paper; `cancelled` is as pale as on white.
_ON_DARK = {
    to_hex(style.BLUE): "#2187cf",
    to_hex(style.SKY_BLUE): "#9bd8ff",
    to_hex(style.GREEN): "#10b98a",
    to_hex(style.PURPLE): "#d98ab6",
    to_hex(style.VERMILLION): "#d55e00",
    to_hex(style.BLACK): "#ffffff",
    to_hex(style.DARK_GREY): "#cfd2d5",
    to_hex(style.MIDDLE_GREY): "#70757b",
    to_hex(style.LIGHT_GREY): "#474c52",
}


def on_dark(color: str) -> str:
    """Return the colour that takes the place of one on a light page.

    Greys without one of their own are mirrored between ink and paper. Other dark colours are mixed
    with white so that a colour map keeps its order of lightness.

    >>> on_dark("#0072b2"), on_dark("#FFFFFF"), on_dark("#e69f00"), on_dark("#00224e")
    ('#2187cf', '#1b2026', '#e69f00', '#586f8b')
    """
    if known := _ON_DARK.get(to_hex(color)):
        return known
    rgb = np.array(to_rgb(color))
    if np.ptp(rgb) == 0.0:
        return to_hex(rgb[0] * np.array(to_rgb(PAPER)) + (1.0 - rgb[0]) * np.array(to_rgb(INK)))
    luma = float(np.array([0.2126, 0.7152, 0.0722]) @ rgb)
    # Lumas of 0 to 0.6 become 0.38 to 0.6.
    lifted = rgb + (1.0 - rgb) * max(0.0, 0.38 * (1.0 - luma / 0.6) / (1.0 - luma))
    return to_hex(tuple(lifted))


def in_both_schemes(svg: bytes) -> bytes:
    """Return an SVG of matplotlib that follows the light or dark scheme of its reader."""
    # Hatches have their colour as an attribute, all else as a style; black areas have neither.
    used = re.findall(r'(fill|stroke)(?:: |=")(#[0-9a-f]{6})\b', svg.decode())
    rules = [f"svg {{ fill: {on_dark(style.BLACK)}; }}"] + [
        f'[style*="{key}: {color}"], [{key}="{color}"] {{ {key}: {on_dark(color)} !important; }}'
        for key, color in dict.fromkeys(used)
    ]
    media = f"@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>"
    return svg.replace(b"</style>", media.encode(), 1)
