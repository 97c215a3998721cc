"""The page of a study, its static figures and its LaTeX tables, from the study's tables alone.

- `study_page`: the page, and what is written beside it.
- `study_card`: summary of a study in a notebook.
- `findings`: verdicts, notices and descriptions in sentences.
- `drawings`: contents of charts and of their static twins.
- `accuracy_curves`: accuracy over time, energy or rounds on a common grid.
- `arm_costs`: costs to a target: Pareto front, effect of a varied key, mean ledgers.
- `intervals`: means over seeds with their ranges.
- `charts`: interactive charts as JSON for plotly.
- `twins`: static figures of one column.
- `arm_styles`: colours, dashes and markers of arms.
- `plotly_bundle`: the script of the installed plotly.
- `html_tables`: tables of the page.
- `latex_tables`: the same for a paper.
- `units`: costs as text and units of axes.
"""
