"""The command line: verbs over scenarios and run folders.

The verbs import torch, pandas and the simulator inside their functions, so that `fleetsim --help`
and `fleetsim list` do not wait for them.

- `entry`: Entry point of the `fleetsim` command: the last handler of every error, with exit codes.
- `application`: The Typer application with all verbs, and the message after an interrupt.
- `run_scenario`: The verbs `run`, `retime` and `flower run`.
- `check_scenario`: The verbs `validate`, `plugin check` and `world validate`: checks without a run.
- `report_runs`: The verbs `report`, `compare` and `timeline`.
- `run_study`: The verbs `study run`, `study status` and `study report`.
- `list_names`: The verbs `list`, `show`, `schema` and `data fetch`: what scenarios may name.
- `bundled_files`: The verb `copy`: bundled files for people who installed a wheel.
- `train_selector`: The verbs `selector train`, `selector show` and `selector break-even`.
- `user_measurements`: The verbs `trace import` and `device calibrate`.
- `scenario_options`: Kinds of values of options that verbs share, and the loading of the scenario.
- `options`: Arguments and options of the verbs.
- `terminal`: Consoles, results as text and JSON, messages on stderr.
- `explain_keys`: The verb `explain`: what a key of a scenario, a study or a search means.
- `read_docs`: The verb `docs`: sections of the documentation that lie in the installed copy.
- `optimize_study`: The verb `study optimize`: a search over keys of a scenario, and its page.
"""

from fleetsim.cli.application import app
from fleetsim.cli.entry import main

__all__ = ["app", "main"]
