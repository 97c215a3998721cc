"""Figures of runs, each a pure function of tables.

Tables are pandas frames with the columns of docs/outputs.md; docs/reports.md says how to read each
figure.

- `accuracy`: test accuracy against time, energy and rounds.
- `device_costs`: time and energy by kind of device, waste by cause.
- `device_groups`: groups of the rarer kinds of devices.
- `ledger`: the energy ledger.
- `energy_inequality`: inequality of energy among clients.
- `coverage`: share of the fleet ever selected, and times selected.
- `selection`: times selected by client or device.
- `selection_ratio`: selected share of the fleet, by round and device.
- `opinions`: opinions and beliefs of clients by round.
- `diagnostics`: numbers that a selector told about its rounds.
- `regret_curves`: regret against the best fixed clients.
- `batteries`: battery levels over time.
- `gantt`: the tasks of one round.
- `style`: colours, layout and file formats of all figures.
"""
