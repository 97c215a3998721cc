"""Summary of a run in the output of a notebook's cell, and single figures of its report."""

from matplotlib.figure import Figure

from fleetsim.errors import DataError
from fleetsim.quoting import quoted
from fleetsim.record.saved_run import Run
from fleetsim.report import markup
from fleetsim.report.figures import style
from fleetsim.report.markup import Table
from fleetsim.report.pages import run_figures, summary
from fleetsim.report.pages.run_figures import Drawn
from fleetsim.schema.spelling import did_you_mean

_FIRST = ("accuracy-time", "joules-by-device")
"""Figures of the card; the first that the run has."""
_LEFT_OUT = "host time"


def html(run: Run) -> str:
    """Return key numbers and a figure of a run; of one that cannot be read, the reason."""
    try:
        return _card(run)
    except DataError as fault:
        message = Table(("what", "value"), [("folder", str(run.folder))])
        return markup.card(run.manifest.name, run.manifest.status, message, notices=fault.faults)


def figure(run: Run, name: str) -> Figure:
    """Return a figure of the report by its stem."""
    stems = []
    for stem, drawn in _every(run):
        if stem == name:
            return style.empty_figure(name, drawn) if isinstance(drawn, str) else drawn()
        stems.append(stem)
    hint = did_you_mean(name, stems) or f"; it has {', '.join(stems)}"
    raise DataError(f"{run.folder}: has no figure {quoted(name)}{hint}")


def _card(run: Run) -> str:
    png, description = None, ""
    if not run.rounds.empty:
        first = _FIRST[0] if summary.is_trained(run) else _FIRST[1]
        drawn = next(each for stem, each in _every(run) if stem == first)
        description = run_figures.CAPTIONS[first]["description"]
        if not isinstance(drawn, str):
            png = style.encode(drawn(), ["png"])["png"]
    rows = [row for row in summary.numbers(run, summary.totals(run)) if row[0] != _LEFT_OUT]
    rows += summary.best_target(run)
    return markup.card(
        run.manifest.name,
        f"{run.folder}, seed {run.manifest.seed}, {summary.ending(run)}",
        Table(("", "value", ""), rows),
        notices=[
            *(f"FAILED: {failure.what} {failure.cause}" for failure in run.manifest.failures),
            *(f"warning: {line}" for line in run.manifest.warnings),
        ],
        png=png,
        description=description,
    )


def _every(run: Run) -> Drawn:
    """Yield the figures of the report in its order."""
    for _, drawn in run_figures.sections(run, summary.reached_targets([run.rounds])):
        yield from drawn
    yield from run_figures.ledger_figures(run, run.ledger())
