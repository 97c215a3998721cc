"""Figures and HTML pages of runs.

- `figures`: Figures of runs, each a pure function of tables.
- `pages`: Pages and tables on runs.
- `timeline`: Timeline of a run as a trace that Perfetto opens: tasks, rounds, accuracy and power.
- `markup`: HTML pages.
- `csv_text`: CSV files of tables, whose texts no spreadsheet takes for formulas.
- `quantities`: Seconds, joules and fractions as text.
- `two_processes`: Calls of a function, every second one in a forked process.
"""
