"""Style of every figure, and its files.

Only matplotlib's object API is used, so the caller's backend and style do not matter. Equal figures
give equal bytes under one version of matplotlib.

The colours are those of Okabe and Ito, "Color universal design" (2008), which people with any form
of colour blindness can distinguish, and greys. There are seven hues, so no figure has more.
"""

import contextlib
import io
import warnings
from collections.abc import Iterable, Iterator
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullFormatter, PercentFormatter, StrMethodFormatter

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

_SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY_BLUE, BLACK)
_DASHES = ("-", "--", ":", "-.")
_STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": PALE,
    "grid.linewidth": 0.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a name with two dollar signs is a name, not a formula
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.hspace": 0.05,
    "figure.titlesize": 12,
    "figure.titleweight": "bold",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "fleetsim",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "savefig.facecolor": "white",
}
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


def in_plain_logs(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, with plain numbers: this style has no formulas for powers."""
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
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
