"""The Typer application with all verbs, and the message after an interrupt."""

import shlex
import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from fleetsim import __version__
from fleetsim.cli import run_study, train_selector
from fleetsim.cli.bundled_files import copy
from fleetsim.cli.check_scenario import check_plugin, validate, validate_world
from fleetsim.cli.explain_keys import explain
from fleetsim.cli.list_names import fetch, list_, schema, show
from fleetsim.cli.optimize_study import optimize
from fleetsim.cli.options import Verb, declared
from fleetsim.cli.read_docs import docs
from fleetsim.cli.report_runs import compare, report, timeline
from fleetsim.cli.run_scenario import retime, run, run_app
from fleetsim.cli.terminal import ended, output
from fleetsim.cli.user_measurements import calibrate, import_
from fleetsim.host.termination import terminable


class _Verbs(TyperGroup):
    """The verbs; Ctrl-C or SIGTERM ends each with a line on how to go on, without traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Invoke the verb of the command line."""
        # The message is inside, so that a second Ctrl-C does not come in its way.
        with terminable():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as interrupt:
                again = ["fleetsim", *sys.argv[1:]]
                if notes := getattr(interrupt, "__notes__", []):
                    again += ["--resume"] if "--resume" not in again else []
                    message = f": {'; '.join(notes)}; go on with: {shlex.join(again)}"
                else:
                    message = f"; begin again with: {shlex.join(again)}"
                raise ended(interrupt, message) from interrupt


# Typer 0.20 shows the backslashes of escaped brackets unless its markup is named.
_MARKUP: Final = "rich"

app = typer.Typer(
    cls=_Verbs,
    rich_markup_mode=_MARKUP,
    name="fleetsim",
    help="Simulate edge fleets that train models together, on one virtual clock.",
    epilog="Start with: fleetsim run quickstart",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _group(name: str, words: str, *, epilog: str | None = None) -> typer.Typer:
    group = typer.Typer(help=words, epilog=epilog, no_args_is_help=True, rich_markup_mode=_MARKUP)
    app.add_typer(group, name=name)
    return group


_data = _group("data", "Data sets.")
_trace = _group("trace", "Traces of usage and of networks.")
_device = _group("device", "Device files.")
_study = _group(
    "study", "Studies: arms compared over seeds.", epilog="Start with: fleetsim study run quick"
)
_selector = _group("selector", "Selectors that learn before they are used.")
_plugin = _group("plugin", "Parts of your own.")
_world = _group("world", "Models of devices, networks, batteries and people.")
_flower = _group("flower", "Flower apps on the virtual clock.")


def _version(is_asked: bool) -> None:
    if is_asked:
        output(f"fleetsim {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


_IMPORT = "table drive.csv traces/mine --time t --rate 'DL\\[kbit/s]' --who phone"
_CALIBRATE = (
    "my-phone.yaml --runs runs.csv --like pixel-6 --power monsoon.csv --idle 5:65 --train 80:380"
)
_TRAIN = (
    "fedmarl --scenario quickstart --episodes 50 --set evaluate.validation_fraction=0.1"
    " --out fedmarl.safetensors"
)
_BREAK_EVEN = "fedgcs-quick --study learning-selectors-quick --arm fedgcs"

_VERBS: tuple[tuple[typer.Typer, str, Verb, str], ...] = (
    (app, "run", run, "quickstart --set server.selector.kind=oort"),
    (app, "retime", retime, "runs/quickstart-1a2b3c4d --set fleet.thermal.ambient_c=35"),
    (app, "validate", validate, "my-scenario.yaml"),
    (app, "report", report, "runs/quickstart-1a2b3c4d"),
    (app, "compare", compare, "runs/random runs/oort --target 0.7 --target 0.8"),
    (app, "timeline", timeline, "runs/oort --rounds 1:20"),
    (app, "list", list_, "devices"),
    (app, "explain", explain, "server.deadline_s"),
    (app, "docs", docs, "over-commit"),
    (app, "schema", schema, "study > fleetsim-study.schema.json"),
    (app, "show", show, "selector oort"),
    (app, "copy", copy, "scenario quickstart my-scenario.yaml"),
    (_plugin, "plugin check", check_plugin, "mine:Median"),
    (_world, "world validate", validate_world, "--out my-validation"),
    (_data, "data fetch", fetch, "fashion-mnist"),
    (_trace, "trace import", import_, _IMPORT),
    (_device, "device calibrate", calibrate, _CALIBRATE),
    (_study, "study run", run_study.run, "selectors-on-phones --workers 4"),
    (_study, "study status", run_study.status, "selectors-on-phones"),
    (_study, "study report", run_study.report, "selectors-on-phones --format pdf"),
    (_study, "study optimize", optimize, "quick-cohort --trials 12"),
    (_selector, "selector train", train_selector.train, _TRAIN),
    (_selector, "selector show", train_selector.show, "fedmarl.safetensors"),
    (_selector, "selector break-even", train_selector.break_even, _BREAK_EVEN),
    (_flower, "flower run", run_app, "my-app --scenario quickstart --seed 2"),
)
"""Parent, path, function and the arguments of an example of each verb."""

for _parent, _path, _verb, _example in _VERBS:
    _words = f"Example: fleetsim {_path} {_example}"
    _command = _parent.command(_path.rpartition(" ")[2], epilog=_words)
    _command(declared(_path, _verb))
