"""The page of a study: one file that opens offline, with its figures and tables as files beside it.

The page runs two scripts, plotly's and its own, which its policy names by their hashes; it allows
no other script, no `eval`, and no request. Text of the study is escaped.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import starmap
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup

from fleetsim.errors import DataError
from fleetsim.record import atomic_files
from fleetsim.report import markup
from fleetsim.report.figures import style
from fleetsim.studies.page import (
    arm_styles,
    chart_data,
    charts,
    findings,
    forest,
    html_tables,
    latex_tables,
    static_charts,
)
from fleetsim.studies.page.arm_styles import ArmStyle
from fleetsim.studies.page.chart_data import ChartData, LedgerData
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables

PAGE = "study.html"
FIGURES = "figures"
LATEX = "latex"

_EMPTY_STYLE = ""
"""Plotly adds a style without text, and fills it by rules, which need no permission."""
# Styles of plotly's map charts, which the script adds unless an element has their number. The page
# has no maps, and its policy refuses foreign styles.
_STYLE_GUARD = re.compile(r'getElementById\("([0-9a-f]{64})"\)')


def write_page(
    tables: StudyTables,
    header: StudyHeader,
    folder: Path,
    *,
    formats: Iterable[str] = (),
    dpi: int = style.PRINT_DPI,
    width_in: float = static_charts.WIDTH_IN,
    latex: bool | Literal["std"] = False,
) -> Path:
    """Write `study.html` into the folder of a study, and return its path.

    Static charts of these formats, of a width and a resolution of PNG, go into `figures/`, and
    tables for LaTeX into `latex/`, with intervals of means or standard deviations.
    """
    formats = tuple(formats)
    looks = arm_styles.of_arms(header.all_arms)
    forests = list(forest.forests(tables, header))
    by_chart: dict[str, list[ChartData]] = {
        "accuracy": list(chart_data.accuracies(tables, header)),
        "plane": list(chart_data.planes(tables, header)),
        "effect": list(chart_data.level_effects(tables, header)),
        "ledger": list(chart_data.ledgers(tables, header)),
    }
    atomic_files.make_folder(folder, hint=markup.HINT)
    stems: list[str] = []
    if formats:
        figures = folder / FIGURES
        atomic_files.make_inner_folder(figures, hint=markup.HINT)
        every = [*forests, *(chart for drawn in by_chart.values() for chart in drawn)]
        stems = static_charts.save(
            every, looks, figures, formats, dpi=dpi, width_in=width_in, hint=markup.HINT
        )
    if latex:
        atomic_files.make_inner_folder(folder / LATEX, hint=markup.HINT)
        for name, text in (
            ("summaries", latex_tables.summaries(tables, header, has_std=latex == "std")),
            ("verdicts", latex_tables.verdicts(tables, header)),
        ):
            path = folder / LATEX / f"{name}.tex"
            atomic_files.write(path, text.encode("utf-8", "replace"), hint=markup.HINT)
    path = folder / PAGE
    files = resources.files("fleetsim.studies.page")
    css = "\n".join((markup.style(), (files / "study.css").read_text("utf-8"), _arm_colors(looks)))
    script, library = (files / "study.js").read_text("utf-8"), _plotly_script()
    version = re.search(r"plotly\.js v([\w.-]+)", library[:300])
    first, others = findings.groups(tables, header)
    data = _chart_data(tables, header, by_chart, looks)
    markup.write(
        path,
        "study.html.j2",
        folder="studies/page",
        header=header,
        subtitle=_subtitle(tables, header),
        answers=findings.answers(tables, header),
        notices=list(findings.notices(tables, header)),
        forests=forests,
        verdicts=first,
        other_verdicts=others,
        charts=list(starmap(_chart_part, data["charts"].items())),
        looks=looks.values(),
        arms=[(arm, looks[arm]) for arm in header.arms],
        tables=[
            html_tables.verdicts(tables, header),
            html_tables.summaries(tables, header),
            html_tables.runs(tables, header, folder),
        ],
        figures=[f"{FIGURES}/{stem}.{formats[0]}" for stem in stems],
        style=Markup(css),
        style_digests=[markup.digest(css), markup.digest(_EMPTY_STYLE)],
        script=Markup(script),
        library=Markup(library),
        script_digests=[markup.digest(library), markup.digest(script)],
        style_guards=sorted(set(_STYLE_GUARD.findall(library))),
        library_version=version[1] if version else "unknown",
        data=Markup(embedded(data)),
    )
    return path


def embedded(data: Any) -> str:
    r"""Return JSON for a script element, which no text in it can close.

    >>> embedded("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _chart_data(
    tables: StudyTables,
    header: StudyHeader,
    by_chart: Mapping[str, Sequence[ChartData]],
    looks: Mapping[str, ArmStyle],
) -> dict[str, Any]:
    """Return all charts, the opening choices and the colours of both schemes."""
    ledgers = [each for each in by_chart["ledger"] if isinstance(each, LedgerData)]
    parts = list(dict.fromkeys(str(part) for each in ledgers for part in each.joules.columns))
    names = {part: f"part{number}" for number, part in enumerate(parts)}
    colors = arm_styles.part_colors(parts)
    return {
        "charts": {
            name: [charts.variant(chart, looks, names) for chart in drawn]
            for name, drawn in by_chart.items()
            if drawn
        },
        "choices": {
            "condition": header.conditions[0],
            "against": "energy",
            "target": findings.main_target(header),
            "metric": findings.main_metric(tables, header),
            "key": next(iter(header.factors), ""),
            "by": "component",
        },
        "arms": list(header.all_arms),
        "palettes": {
            scheme: arm_styles.palette(looks, is_dark=bool(at))
            | {names[part]: pair[at] for part, pair in colors.items()}
            for at, scheme in enumerate(("light", "dark"))
        },
    }


def _chart_part(name: str, variants: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the frame of a chart: its name, and the choices of which there are several."""
    values = {
        key: list(dict.fromkeys(variant["choice"][key] for variant in variants))
        for key in variants[0]["choice"]
    }
    return {
        "name": name,
        "choices": [(key, each) for key, each in values.items() if len(each) > 1],
        "finding": variants[0]["finding"],
        "caption": variants[0]["caption"],
    }


def _subtitle(tables: StudyTables, header: StudyHeader) -> str:
    done = int((tables.runs["status"] == findings.DONE).sum())
    parts = [
        f"{len(header.arms)} {'arms' if header.sweep_arm is None else 'levels'}",
        f"{len(header.conditions)} conditions" if len(header.conditions) > 1 else "",
        f"{len(header.seeds)} seed{'s' if len(header.seeds) > 1 else ''}",
        f"{done} of {len(tables.runs)} runs done",
        f"baseline {header.baseline or 'the best level'}",
    ]
    return ", ".join(part for part in parts if part)


def _arm_colors(looks: Mapping[str, ArmStyle]) -> str:
    light = [f".arm{look.number} {{ color: {look.light}; }}" for look in looks.values()]
    dark = [f".arm{look.number} {{ color: {look.dark}; }}" for look in looks.values()]
    return "\n".join([*light, "@media screen and (prefers-color-scheme: dark) {", *dark, "}"])


@cache
def _plotly_script() -> str:
    """Return the script of the installed plotly, of which nothing else is used (MIT licence)."""
    source = resources.files("plotly") / "package_data" / "plotly.min.js"
    hint = "install plotly anew"
    try:
        text = source.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise DataError(f"{source}: cannot be read ({cause}); {hint}") from None
    # A browser reads these otherwise than they are written, so the script's hash would not match.
    if re.search(r"</script|<!--|\r|\x00", text, re.IGNORECASE):
        raise DataError(f"{source}: cannot be put into a page as it is; {hint}")
    return text
