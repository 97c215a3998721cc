"""Style of every figure, its colours on a light and a dark page, and its files.

Only matplotlib's object API is used, so the caller's backend and style do not matter. Equal figures
give equal bytes under one version of matplotlib.

The colours are those of Okabe and Ito, "Color universal design" (2008), which people with any form
of colour blindness can distinguish, and greys. There are seven hues, so no figure has more.
A figure is drawn once, in the colours of a light page. Its SVG in a page has a rule per colour that
replaces it where the reader prefers a dark scheme, so one picture serves both.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
    StrMethodFormatter,
)

from fleetsim.contracts import Outcome
from fleetsim.record import atomic_files

BLACK = "#000000"
ORANGE = "#E69F00"
SKY_BLUE = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#999999"
LIGHT_GREY = "#cccccc"
MIDDLE_GREY = "#6a6a6a"
DARK_GREY = "#404040"
PALE = "#e4e4e4"
MIST = "#bbbbbb"
INK = "#222222"
DASHED: dict[str, Any] = {"color": INK, "linewidth": 1.0, "linestyle": "--"}
"""Looks of a mean, and of other lines that data are compared with."""
WIDTH_IN = 10.0
"""Width of every figure, so that all type on a page has the same size."""

PHASES = {
    "download_s": ("download", SKY_BLUE),
    "compute_s": ("compute", ORANGE),
    "upload_s": ("upload", BLUE),
}
"""Columns of seconds: label and colour."""
COMPONENTS = {
    "energy_compute_j": ("compute", ORANGE),
    "energy_receive_j": ("receive", SKY_BLUE),
    "energy_transmit_j": ("transmit", BLUE),
    "energy_tail_j": ("radio tail", PURPLE),
    "energy_idle_j": ("idle, awake", MIDDLE_GREY),
    "energy_enlisted_idle_j": ("idle while enlisted", YELLOW),
}
"""Columns of joules: label and colour."""
OUTCOMES: dict[str, str] = {
    Outcome.DELIVERED: GREEN,
    Outcome.LATE: VERMILLION,
    Outcome.OFFLINE: BLUE,
    Outcome.BATTERY: YELLOW,
    Outcome.LINK: PURPLE,
    Outcome.CRASHED: BLACK,
    Outcome.MEMORY: DARK_GREY,
    Outcome.CANCELLED: LIGHT_GREY,
    Outcome.STALE: ORANGE,
    Outcome.REFUSED: SKY_BLUE,
}
"""Outcomes in the order in which they are shown, and their colours."""

DARK_PAPER, _DARK_INK = "#1b2026", "#e6e9ec"
"""Background and text on a dark page; those of a card in the style of the pages."""
# The same hues, as far apart for all forms of colour blindness as on white, with a contrast above 3
# to the paper; `cancelled` is as pale as on white.
_ON_DARK = {
    to_hex(BLUE): "#2187cf",
    to_hex(SKY_BLUE): "#9bd8ff",
    to_hex(GREEN): "#10b98a",
    to_hex(PURPLE): "#d98ab6",
    to_hex(VERMILLION): "#d55e00",
    to_hex(BLACK): "#ffffff",
    to_hex(DARK_GREY): "#cfd2d5",
    to_hex(MIDDLE_GREY): "#70757b",
    to_hex(LIGHT_GREY): "#474c52",
}

_SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY_BLUE, BLACK)
_DASHES = ("-", "--", ":", "-.")
_STYLE = Path(__file__).with_name("house.mplstyle")
PRINT_DPI = 300
"""Resolution of PNG files, which publishers ask for."""
_SCREEN_DPI = 150
_SHOWN_PIXELS_PER_IN = 75
"""Half the resolution of a PNG on a screen, so that it is sharp on those of twice the density."""
FORMATS: dict[str, dict[str, Any]] = {
    "png": {},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Use matplotlib's defaults with fleetsim's changes; also a decorator."""
    with matplotlib.style.context(["default", _STYLE]):
        yield


class ShownFigure(Figure):
    """Figure that a notebook shows, once, where it is the value of a cell.

    It is made without pyplot, which would show it a second time at the end of the cell.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the figure for IPython: PNG, and its width in pixels of the page."""
        width = round(_SHOWN_PIXELS_PER_IN * self.get_figwidth())
        return encode(self, ["png"])["png"], {"width": width}


def new_figure(width_in: float, height_in: float, *, title: str | None = None) -> Figure:
    """Return an empty figure of its own, with its title at the left."""
    figure = ShownFigure(figsize=(width_in, height_in), layout="constrained")
    if title is not None:
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def series(number: int) -> list[dict[str, Any]]:
    """Return colour and dash of each of `number` lines; after 28 they repeat."""
    looks = islice(cycle(product(_DASHES, _SERIES)), number)
    return [{"color": color, "linestyle": dash} for dash, color in looks]


def fill_colors(number: int) -> list[str]:
    """Return colours of `number` neighbouring areas; after 7 they repeat."""
    return list(islice(cycle(_SERIES), number))


def say(axes: Axes, words: str) -> None:
    """Write words in the place of missing data."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes, wrap=True)


def empty_figure(title: str, words: str) -> Figure:
    """Return a low figure that says in words that there is nothing to draw."""
    figure = new_figure(WIDTH_IN, 2.4, title=title)
    say(figure.subplots(), words)
    return figure


def band(axes: Axes, x: Any, low: Any, high: Any, **looks: Any) -> None:
    """Draw the area of a range around a line."""
    axes.fill_between(x, low, high, color=SKY_BLUE, alpha=0.35, linewidth=0, **looks)


def mark_levels(axes: Axes, levels: Iterable[float]) -> None:
    """Draw dotted lines at some heights, behind all others."""
    for level in levels:
        axes.axhline(level, color=MIST, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)


def mark_deadline(axes: Axes, at: float) -> None:
    """Draw a deadline over an axis of times."""
    axes.axvline(at, color=VERMILLION, linewidth=1.2, linestyle=":", label="deadline")


def in_plain_logs(axes: Axes, which: str, subs: Sequence[float] | None = None) -> None:
    """Make an axis logarithmic, with plain numbers: this style has no formulas for powers.

    `subs` are the multiples of each decade that are labelled.
    """
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    if subs is not None:
        axis.set_major_locator(LogLocator(subs=subs, numticks=8))
    axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def rows_from_top(axes: Axes, number: int, *, room_for: int = 3) -> None:
    """Make room for bars at 0 to `number` - 1, or for more, so that a single bar stays thin."""
    axes.set_ylim(number - 0.6 - max(number, room_for), number - 0.4)


def in_percent(axes: Axes, which: str) -> None:
    """Show an axis of fractions in percent."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def in_whole_numbers(*axes: Axis) -> None:
    """Show axes of rounds or counts without fractions."""
    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True))


def legend_below(figure: Figure, *panels: Axes) -> None:
    """Put one legend of some panels below all: areas first, then markers and lines."""
    entries = [
        entry for axes in panels for entry in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    entries.sort(key=lambda entry: isinstance(entry[0], Line2D))
    if not entries:
        return
    # A rough estimate is enough to break a legend into rows before it is wider than its figure.
    widths_in = [0.6 + 0.085 * len(label) for _, label in entries]
    room_in = float(figure.get_figwidth())
    num_columns = len(entries) if sum(widths_in) <= room_in else int(room_in / max(widths_in))
    figure.legend(
        *zip(*entries, strict=True),
        loc="outside lower center",
        ncols=max(1, num_columns),
        columnspacing=1.4,
    )


@house_style()
def encode(
    figure: Figure, suffixes: Iterable[str] = FORMATS, *, dpi: int = _SCREEN_DPI
) -> dict[str, bytes]:
    """Return a figure in each format, without dates and with the same layout; dpi is of PNG."""
    encoded = {}
    with warnings.catch_warnings():
        # A device may be named in letters that the font lacks: boxes are drawn instead.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        layout = figure.get_layout_engine()
        if layout is not None:
            layout.execute(figure)
        figure.set_layout_engine(None)  # or every format would compute it again
        for suffix in suffixes:
            buffer = io.BytesIO()
            figure.savefig(
                buffer, format=suffix, dpi=dpi if suffix == "png" else "figure", **FORMATS[suffix]
            )
            encoded[suffix] = buffer.getvalue()
    return encoded


def save(
    figure: Figure,
    folder: Path,
    stem: str,
    formats: Iterable[str] = FORMATS,
    *,
    dpi: int = PRINT_DPI,
) -> bytes:
    """Write a file STEM.FORMAT of each format, atomically; return the SVG."""
    hint = "make the folder writable, then ask for the report again"
    requested = list(dict.fromkeys(formats))
    encoded = encode(figure, dict.fromkeys(["svg", *requested]), dpi=dpi)
    for suffix in requested:
        atomic_files.write(folder / f"{stem}.{suffix}", encoded[suffix], hint=hint)
    return encoded["svg"]


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
        ink, paper = (np.array(to_rgb(each)) for each in (_DARK_INK, DARK_PAPER))
        return to_hex(rgb[0] * paper + (1.0 - rgb[0]) * ink)
    luma = float(np.array([0.2126, 0.7152, 0.0722]) @ rgb)
    # Lumas of 0 to 0.6 become 0.38 to 0.6.
    lifted = rgb + (1.0 - rgb) * max(0.0, 0.38 * (1.0 - luma / 0.6) / (1.0 - luma))
    return to_hex(tuple(lifted))


def in_both_schemes(svg: bytes) -> bytes:
    """Return an SVG of matplotlib that follows the light or dark scheme of its reader."""
    # Hatches have their colour as an attribute, all else as a style; black areas have neither.
    used = re.findall(r'(fill|stroke)(?:: |=")(#[0-9a-f]{6})\b', svg.decode())
    rules = [f"svg {{ fill: {on_dark(BLACK)}; }}"] + [
        f'[style*="{key}: {color}"], [{key}="{color}"] {{ {key}: {on_dark(color)} !important; }}'
        for key, color in dict.fromkeys(used)
    ]
    media = f"@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>"
    return svg.replace(b"</style>", media.encode(), 1)
