"""The command line: verbs over scenarios and run folders.

The verbs import torch, pandas and the simulator inside their functions, so that `fleetsim --help`
and `fleetsim list` do not wait for them.

- `__main__`: entry point of `python -m fleetsim.cli`.
- `entry`: entry point of the command, with the last handler of errors.
- `application`: the Typer application, with all verbs and the handling of interrupts.
- `run_scenario`: the verbs `run` and `flower run`.
- `check_scenario`: the verbs `validate` and `check-plugin`.
- `validate_world`: the verb `validate-world`.
- `report_runs`: the verbs `report` and `compare`.
- `run_study`: the verbs `study run`, `study status` and `study report`.
- `write_timeline`: the verb `timeline`.
- `list_names`: the verbs `list` and `schema`.
- `bundled_files`: the verbs `show` and `copy`.
- `train_selector`: the verbs `selector train`, `selector show` and `selector break-even`.
- `fetch_data`: the verb `data fetch`.
- `own_measurements`: the verbs `trace import` and `device calibrate`.
- `scenario_options`: scenario argument and its options, shared by verbs.
- `completion`: names that the shell completes.
- `terminal`: consoles, messages on stderr, exit codes of an interrupt.
"""

from fleetsim.cli.application import app
from fleetsim.cli.entry import main

__all__ = ["app", "main"]
