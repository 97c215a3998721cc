"""Figures of runs, each a pure function of tables.

Tables are pandas frames with the columns of docs/outputs.md; docs/reports.md says how to read each
figure.

- `accuracy`: Figures of test accuracy against virtual time, energy and rounds.
- `device_costs`: Figures of time and energy by kind of device, and of wasted energy by cause.
- `device_groups`: Groups of the rarer kinds of devices, so that a figure stays readable.
- `ledger`: Figures of the energy ledger: joules by component, purpose and energy outcome.
- `energy_inequality`: Inequality of energy among the clients of a run.
- `coverage`: Figure of the clients ever selected, and of the number of selections.
- `selection`: Figure of times selected: by client, or as a distribution in a large fleet.
- `selection_ratio`: Figure of the selected share of the fleet by round.
- `opinions`: Figures of the opinions of clients of the model, and of their beliefs.
- `diagnostics`: Figure of the numbers that a selector told about its rounds.
- `batteries`: Figure of battery levels over time, and of the clients that can take part.
- `gantt`: Gantt chart of the tasks of one round.
- `task_durations`: Distribution of the durations of train tasks by kind of device.
- `dark_scheme`: Colours of figures on a dark page.
- `style`: Style of every figure, and its files.
"""
