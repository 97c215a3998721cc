"""The page of a study, its static figures and its LaTeX tables, from the study's tables alone.

- `study_tables`: Tables and header of a study, from which its page and its files are made.
- `study_page`: The page of a study.
- `study_card`: Summary of a study in the output of a cell.
- `findings`: Findings of a study in sentences.
- `chart_data`: Data of the charts of a study: numbers in units, titles, words.
- `accuracy_curves`: Accuracy of arms over time, energy or rounds: mean over seeds on a common grid.
- `arm_costs`: Costs of arms to a target: in the time-energy plane, and by level of a varied key.
- `intervals`: Means over seeds with the range in which they are drawn.
- `charts`: Interactive charts of a study, as plain dictionaries that plotly's script reads.
- `static_charts`: Static charts of a study: files for a paper, with type of 8 points at any width.
- `arm_styles`: Colour, dash and marker of every arm, and the colours of a light and a dark page.
- `html_tables`: Tables of the page: cells with text and the value to sort by.
- `latex_tables`: Tables of a study for a paper.
- `units`: Costs and their ratios as text, and units for the axes of charts.
- `forest`: Forest plot of a study.
- `terminal_tables`: Verdicts of a study as tables for the terminal.
"""
