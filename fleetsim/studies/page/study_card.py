"""Summary of a study in the output of a cell: verdicts, costs, and the time-energy plane."""

from collections.abc import Iterator

from fleetsim.report import markup
from fleetsim.report.figures import style
from fleetsim.report.markup import Table
from fleetsim.studies.page import arm_styles, chart_data, findings, html_tables, static_charts
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables

_COLUMNS = ("arm", "condition", "target", "metric", "reached", "mean", "least", "most")
_METRICS = ("seconds", "joules")
_WIDTH = 400
_MOST_ROWS = 24
_MOST_SENTENCES = 12


def html(tables: StudyTables, header: StudyHeader) -> str:
    """Return verdicts, costs to the last target, and a figure of the first condition."""
    num_done = int((tables.runs["status"] == findings.DONE).sum())
    png, description = None, ""
    if num_done:
        chart = next(
            each
            for each in chart_data.planes(tables, header)
            if each.choice
            == {"condition": header.conditions[0], "target": findings.main_target(header)}
        )
        figure = static_charts.draw(chart, arm_styles.of_arms(header.arms))
        png, description = style.encode(figure, ["png"])["png"], chart.finding
    return markup.card(
        header.name,
        f"{header.question} {num_done} of {len(tables.runs)} runs are complete.".strip(),
        _costs(tables, header),
        notices=_notices(tables, header),
        png=png,
        width=_WIDTH,
        description=description,
    )


def _notices(tables: StudyTables, header: StudyHeader) -> Iterator[str]:
    """Yield what limits the findings, then the verdicts on the main target and metric."""
    for heading, words in findings.notices(tables, header):
        yield f"{heading} {words}"
    yield from findings.answers(tables, header)
    groups, _ = findings.groups(tables, header)
    lines = [
        f"{group.condition}: {sentence}" if group.condition else sentence
        for group in groups
        for _, _, sentence in group.verdicts
    ]
    yield from lines[:_MOST_SENTENCES]
    if len(lines) > _MOST_SENTENCES:
        yield f"... and {len(lines) - _MOST_SENTENCES} more verdicts"


def _costs(tables: StudyTables, header: StudyHeader) -> Table:
    """Return seconds and joules to the last target, as the page of the study shows them."""
    whole = html_tables.summaries(tables, header)
    places = [whole.columns.index(name) for name in _COLUMNS if name in whole.columns]
    target, metric = whole.columns.index("target"), whole.columns.index("metric")
    rows = [
        tuple(row[place].text for place in places)
        for row in whole.rows
        if row[target].text == findings.main_target(header) and row[metric].text in _METRICS
    ]
    if len(rows) > _MOST_ROWS:
        more = f"... and {len(rows) - _MOST_ROWS} more"
        rows = [*rows[:_MOST_ROWS], (more, *[""] * (len(places) - 1))]
    return Table([whole.columns[place] for place in places], rows)
