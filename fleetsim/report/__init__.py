"""Figures and HTML pages of runs.

- `figures`: figures as pure functions of tables.
- `pages`: pages and tables, of one run and of runs side by side.
- `timeline`: timeline of a run as a trace for Perfetto.
- `markup`: pages that open offline, from templates.
- `csv_text`: CSV files whose texts no spreadsheet takes for formulas.
- `quantities`: seconds, joules and fractions as text.
"""
