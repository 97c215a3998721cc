"""The command line: verbs over scenarios and run folders.

Exit codes: 0 done; 1 the simulation broke an invariant, training diverged, a training process died,
there is a bug, or the output cannot be written; 2 the input is wrong (one line per fault); 130
interrupted, 143 ended by SIGTERM (and how to resume). A traceback goes to a file that the one line
on the terminal names.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import re
import shlex
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from fleetsim import __version__
from fleetsim.errors import (
    DataError,
    DivergenceError,
    ScenarioError,
    SimulationError,
    TrainingError,
)
from fleetsim.host import crash_file
from fleetsim.host.numerics import VARIABLE, Numerics, one_blas_thread, settle
from fleetsim.host.termination import Terminated, terminable
from fleetsim.quoting import MAX_VALUE, one_line, quoted

if TYPE_CHECKING:
    from fleetsim.learning.data.prefetch import ReadAhead
    from fleetsim.scenario import Scenario

# Imports inside the verbs keep `fleetsim list` and `--help` from waiting for torch and pandas.

# Typer keeps click under a private name; its own BadParameter is one of click's usage faults.
UsageFault: type[Exception] = typer.BadParameter.__bases__[0]

INTERRUPTED = 130
TERMINATED = 143
_MAX_SEED = 2**63 - 1
_MAX_WORKERS = 1024
_PIPE_WIDTH = 240
_MOST_CHARACTERS = 300
_OUTPUT_FAULTS = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG)

console = Console(emoji=False)
errors = Console(stderr=True, emoji=False)


class _Verbs(TyperGroup):
    """The verbs; Ctrl-C or SIGTERM ends any of them with a line on how to go on, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Invoke the verb that was asked for."""
        try:
            with terminable():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            again = ["fleetsim", *sys.argv[1:]]
            if notes := getattr(interrupt, "__notes__", []):
                again += ["--resume"] if "--resume" not in again else []
                says = f": {'; '.join(notes)}; go on with: {shlex.join(again)}"
            else:
                says = f"; begin again with: {shlex.join(again)}"
            raise _ended(interrupt, says) from interrupt


app = typer.Typer(
    cls=_Verbs,
    name="fleetsim",
    help="Simulate edge fleets that train models together, on one virtual clock.",
    epilog="Start with: fleetsim run quickstart",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Data sets.", no_args_is_help=True)
trace_app = typer.Typer(help="Traces of usage and of networks.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(trace_app, name="trace")

ScenarioArgument = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A YAML file or the name of a bundled scenario.")
]
SeedOption = Annotated[
    int | None, typer.Option(help="Replaces the scenario's seed.", min=0, max=_MAX_SEED)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be given many times."),
]
PluginOption = Annotated[
    str | None,
    typer.Option(help="A selector of your own, importable from here.", metavar="MODULE:CLASS"),
]
RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]
PricesOption = Annotated[
    str | None,
    typer.Option(help="What joules and hours cost: a YAML file or a bundled name.", metavar="FILE"),
]


class Catalogue(StrEnum):
    """What `list` lists."""

    DEVICES = "devices"
    SELECTORS = "selectors"
    DATASETS = "datasets"
    MODELS = "models"
    TRACES = "traces"
    SCENARIOS = "scenarios"


class TorchDevice(StrEnum):
    """Where training runs."""

    CPU = "cpu"
    CUDA = "cuda"


class UnknownTimes(StrEnum):
    """What to make of times of which a trace knows nothing."""

    HOLD = "hold"
    OFFLINE = "offline"


class OnlinePhones(StrEnum):
    """Which phones of an event log are online."""

    LOCKED = "locked"
    ALWAYS = "always"


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"fleetsim {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: fleetsim run quickstart --set server.selector.kind=oort")
def run(
    scenario: ScenarioArgument,
    seed: SeedOption = None,
    set_: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/NAME-HASH unless given.")
    ] = None,
    torch_device: Annotated[
        TorchDevice, typer.Option(help="Where training runs on the host.")
    ] = TorchDevice.CPU,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that train; changes no result. One for every core unless given.",
            min=1,
            max=_MAX_WORKERS,
        ),
    ] = None,
    numerics: Annotated[
        Numerics | None,
        typer.Option(
            help="portable: the same bytes on every x86-64 processor with AVX2 and FMA, slower;"
            " fastest unless given, or as FLEETSIM_NUMERICS says."
        ),
    ] = None,
    plugin: PluginOption = None,
    no_train: Annotated[
        bool, typer.Option("--no-train", help="Simulate time and energy only; no accuracy.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the unfinished run of this scenario; begin if there is none.",
        ),
    ] = False,
    allow_other_platform: Annotated[
        bool,
        typer.Option(
            "--allow-other-platform",
            help="Resume although the numerical platform differs; both are put on record.",
        ),
    ] = False,
) -> None:
    """Run a scenario and report on it."""
    if numerics is not None:
        os.environ[VARIABLE] = numerics.value
    settle()
    loaded = _load(scenario, set_, seed, plugin, train=not no_train)
    with one_blas_thread():
        # Before torch is imported, which takes longer than most data sets do.
        reading = _begin_to_read(loaded)
        from fleetsim import simulate
        from fleetsim.progress import watch

        # Half a million objects of imported libraries will not be garbage: neither the collector
        # nor the processes that train need look at them again.
        gc.freeze()
        with watch(loaded, console) as on_progress:
            done = simulate.run(
                loaded,
                out=out,
                train=not no_train,
                torch_device=torch_device.value,
                workers=workers,
                resume=resume,
                allow_other_platform=allow_other_platform,
                on_progress=on_progress,
                on_note=_note,
                reading=reading,
            )
    try:
        # Only now: its libraries take a second to import and a hundred megabytes.
        from fleetsim.report.pages import run_page

        path = run_page.write_report(done)
    except KeyboardInterrupt as interrupt:
        again = shlex.join(["fleetsim", "report", str(done.folder)])
        says = f": the run is complete, its report is not; write it with: {again}"
        raise _ended(interrupt, says) from interrupt
    for line in run_page.summary_lines(done):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    console.print(f"report: {path}", highlight=False, soft_wrap=True, markup=False)


@app.command(epilog="Example: fleetsim validate my-scenario.yaml")
def validate(
    scenario: ScenarioArgument,
    seed: SeedOption = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
) -> None:
    """Check a scenario without running it, and show it resolved."""
    loaded = _load(scenario, set_, seed, plugin)
    loaded.build_selector()
    _check_own_files(loaded)
    import numpy as np

    from fleetsim.fleet.population import load_trace

    load_trace(loaded.fleet.usage, seed=loaded.seed)
    loaded.fleet.channel.build(seed=loaded.seed, is_wired=np.zeros(1, dtype=np.bool_))
    typer.echo(loaded.to_yaml(), nl=False)


@app.command("validate-world", epilog="Example: fleetsim validate-world --out my-validation")
def validate_world(
    out: Annotated[Path, typer.Option(help="Folder for the page and its figures.")] = Path(
        "validation"
    ),
) -> None:
    """Set the models beside measurements and theory; half a minute.

    Writes validation.md and figures: device times, memory, heat, fading, queues and traces, with
    errors and sources. Published traces are checked if they are below $FLEETSIM_DATA.
    """
    from fleetsim.progress import steps
    from fleetsim.validation.page import SECTION_MAKERS, write

    with steps([maker.name for maker in SECTION_MAKERS], console) as begin:
        sections = []
        for maker in SECTION_MAKERS:
            begin(maker.name)
            sections.append(maker.make())
    typer.echo(write(sections, out))


@app.command(epilog="Example: fleetsim report runs/quickstart-1a2b3c4d")
def report(runs: RunsArgument, prices: PricesOption = None) -> None:
    """Write report.html and figures into run folders."""
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.pages import run_page
    from fleetsim.report.pages.prices import load

    priced = None if prices is None else load(prices)
    for folder in runs:
        typer.echo(run_page.write_report(open_run(folder), priced=priced))


@app.command(epilog="Example: fleetsim compare runs/random runs/oort --target 0.7 --target 0.8")
def compare(
    runs: RunsArgument,
    target: Annotated[
        list[float] | None,
        typer.Option(help="Accuracy to reach, 0 to 1; may be given many times.", min=0.0, max=1.0),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the comparison.")] = Path("comparison"),
    different_worlds: Annotated[
        bool,
        typer.Option(
            "--different-worlds", help="Compare although seed, task or fleet differ; says so."
        ),
    ] = False,
    prices: PricesOption = None,
    budget_s: Annotated[
        float | None,
        typer.Option(
            "--budget-s", help="Seconds that a run may take; with --budget-j, a score (FedGCS)."
        ),
    ] = None,
    budget_j: Annotated[
        float | None,
        typer.Option("--budget-j", help="Joules that a run may take; with --budget-s, a score."),
    ] = None,
) -> None:
    """Overlay runs and tabulate time- and energy-to-accuracy."""
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.pages import comparison
    from fleetsim.report.pages.measures import budgets
    from fleetsim.report.pages.prices import load

    allowed = budgets(budget_s, budget_j)
    result = comparison.compare(
        [open_run(folder) for folder in runs],
        targets=target,
        different_worlds=different_worlds,
        priced=None if prices is None else load(prices),
        budgets=allowed,
    )
    path = comparison.write(result, out)
    typer.echo(comparison.text_table(result))
    typer.echo(f"comparison: {path}")


@app.command("list", epilog="Example: fleetsim list devices")
def list_(
    what: Annotated[Catalogue, typer.Argument(metavar="WHAT", help="What to list.")],
) -> None:
    """List what a scenario can name."""
    from fleetsim import catalogue

    listing = catalogue.listing(what.value)
    table = Table(*listing.columns, box=None, pad_edge=False)
    for row in listing.rows:
        table.add_row(*row)
    # In a pipe there is no width to fit into.
    wide = console if console.is_terminal else Console(width=_PIPE_WIDTH)
    wide.print(table)
    if listing.note:
        wide.print(f"\n{listing.note}", markup=False)


@app.command(epilog="Example: fleetsim schema > fleetsim.schema.json")
def schema(plugin: PluginOption = None) -> None:
    """Print the JSON Schema of scenarios, for editors."""
    from fleetsim.scenario import schema as scenario_schema

    typer.echo(json.dumps(scenario_schema(plugin), indent=2, sort_keys=True))


@data_app.command("fetch", epilog="Example: fleetsim data fetch fashion-mnist")
def data_fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Data set; see `fleetsim list datasets`.")
    ],
) -> None:
    """Download a data set from its official address and verify its checksums."""
    from fleetsim.learning.data.loading import REGISTRY
    from fleetsim.learning.data.published.fetch import fetch

    typer.echo(fetch(name, progress=console.is_terminal, registry=REGISTRY))


@trace_app.command(
    "import", epilog="Example: fleetsim trace import flhetbench downloads/flhetbench traces/mine"
)
def trace_import(
    format_: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="Usage: states, intervals, flhetbench, extrasensory, flash or fedscale."
            " Network: irish-5g, norway-3g or rates.",
        ),
    ],
    source: Annotated[Path, typer.Argument(help="Folder or file of the source.")],
    dest: Annotated[Path, typer.Argument(help="New folder for the trace.")],
    unknown: Annotated[
        UnknownTimes | None,
        typer.Option(help="Times of which the source knows nothing; hold unless given."),
    ] = None,
    online: Annotated[
        OnlinePhones | None,
        typer.Option(help="Which phones of flash are online; locked unless given."),
    ] = None,
    utc_offset_h: Annotated[
        float | None,
        typer.Option(help="Hours by which the users' clock is ahead of the source's."),
    ] = None,
    whole_days: Annotated[
        bool, typer.Option("--whole-days", help="Cut records down to their whole days.")
    ] = False,
    app_name: Annotated[
        str | None,
        typer.Option("--app", help="irish-5g: application whose logs to take; Download if unsaid."),
    ] = None,
) -> None:
    """Convert a trace of usage or of a network into fleetsim's own form."""
    from fleetsim.fleet.traces.formats import import_any
    from fleetsim.fleet.traces.usage.importing import ImportOptions

    options = ImportOptions(
        unknown=None if unknown is None else unknown.value,
        online=None if online is None else online.value,
        utc_offset_h=utc_offset_h,
        whole_days=whole_days,
    )
    for note in import_any(format_, source, dest, options, app=app_name):
        typer.echo(note)
    typer.echo(dest)


def _load(
    scenario: str,
    set_: list[str] | None,
    seed: int | None,
    plugin: str | None,
    *,
    train: bool = True,
) -> Scenario:
    from fleetsim.scenario import doubts, load

    loaded = load(scenario, set_ or (), seed=seed, plugin=plugin)
    for line in doubts(loaded, train=train):
        _say(f"warning: {line}")
    return loaded


def _ended(interrupt: KeyboardInterrupt, says: str) -> typer.Exit:
    """Say that a verb was interrupted, and return the exit to raise."""
    is_asked = isinstance(interrupt, Terminated)
    _say(f"{'ended by SIGTERM' if is_asked else 'interrupted'}{says}")
    return typer.Exit(TERMINATED if is_asked else INTERRUPTED)


def _check_own_files(scenario: Scenario) -> None:
    """Read a data set in the user's own files, whose form no checksum vouches for, and split it.

    Raises:
        DataError: its files are wrong.
        ScenarioError: a key does not suit them, or they hold too little for the fleet.
    """
    from fleetsim.learning.data.blank import BlankSettings
    from fleetsim.learning.data.loading import load_dataset
    from fleetsim.scenario import samples_of

    dataset = scenario.task.dataset
    if not isinstance(dataset, BlankSettings) and dataset.is_own_files:
        read = load_dataset(dataset, seed=scenario.seed, num_clients=scenario.fleet.size)
        samples_of(scenario, read)


def _begin_to_read(scenario: Scenario) -> ReadAhead | None:
    """Its data set, in a thread; None if there is nothing to read."""
    from fleetsim.learning.data.blank import BlankSettings
    from fleetsim.learning.data.prefetch import ReadAhead

    dataset = scenario.task.dataset
    if isinstance(dataset, BlankSettings):
        return None
    return ReadAhead(dataset, seed=scenario.seed, num_clients=scenario.fleet.size)


def _note(line: str) -> None:
    """Write a line that is neither a warning nor an error."""
    _say(f"note: {line}")


def _say(line: str) -> None:
    """Write one line for people to stderr."""
    # Nobody can be told that stderr is full or closed; the exit code still says what happened.
    with contextlib.suppress(OSError):
        errors.print(one_line(line), highlight=False, soft_wrap=True, markup=False)


def _usage(fault: Any) -> str:
    """A usage fault on one line: the command, what is wrong, where to look."""
    command = fault.ctx.command_path if fault.ctx else "fleetsim"
    says = " ".join(fault.format_message().replace("Value error, ", "").split()).rstrip(".")
    says = re.sub(rf"'([^']{{{MAX_VALUE},}})'", lambda match: quoted(match[1]), says)
    return f"{command}: {says}; see `{command} --help`"


def main() -> None:
    """Entry point of the `fleetsim` command."""
    try:
        code = app(standalone_mode=False, prog_name="fleetsim")
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(code)
    except UsageFault as fault:
        # Where no verb is given, Typer has printed the help, and the fault says nothing.
        if str(fault):
            _say(f"error: {_usage(fault)}")
        sys.exit(2)
    except (ScenarioError, DataError) as fault:
        for line in str(fault).split("\n"):
            _say(f"error: {line}")
        sys.exit(2)
    except MemoryError as fault:
        _say(f"error: not enough memory: {fault}; lower fleet.size, the model or the data set")
        sys.exit(2)
    except TrainingError as fault:
        for line in str(fault).split("\n"):
            _say(f"error: {line}")
        _say("What was recorded is in the run folder; go on with --resume.")
        sys.exit(1)
    except DivergenceError as fault:
        _say(f"error: {fault}; what was recorded is in the run folder")
        sys.exit(1)
    except SimulationError as fault:
        _say(
            f"simulation error: {fault}; this is a bug of fleetsim or of a plug-in,"
            f" {_where_told(fault)}. What was recorded is in the run folder."
        )
        sys.exit(1)
    except Exception as fault:  # the last resort: a bug is told in one line, too
        if _is_of_output(fault):
            _say(f"error: the output cannot be written: {fault}; make room, or send it elsewhere")
        else:
            says = " ".join(f"{type(fault).__name__}: {fault}".split())[:_MOST_CHARACTERS]
            _say(f"error: unexpected {says}; this is a bug of fleetsim, {_where_told(fault)}")
        sys.exit(1)


def _where_told(fault: Exception) -> str:
    """Write the traceback to a file, or to the terminal if that fails, and say where it is."""
    try:
        return f"please report it with {crash_file.write(fault)}"
    except OSError as cause:
        traceback.print_exception(fault)
        return f"please report it with the lines above (no file: {cause.strerror})"


def _is_of_output(fault: Exception) -> bool:
    """Whether stdout is full or gone; what is left for it is then dropped.

    Writing to a file that has a name ends in a DataError instead; click ends in silence, and with
    exit code 1, where a pipe was closed.
    """
    if not isinstance(fault, OSError) or fault.errno not in _OUTPUT_FAULTS or fault.filename:
        return False
    # Else the interpreter tries again when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


if __name__ == "__main__":
    main()
