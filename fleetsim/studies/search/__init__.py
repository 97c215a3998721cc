"""Search over keys of a scenario for the lowest costs, several seeds a trial.

- `settings`: Settings of a search file.
- `page`: The page of a search.
- `sampling`: Choice of the parameters of trials, by the tree-structured Parzen estimator of Optuna.
- `searching`: Search.
- `space`: Space of a search: its keys with their values, and the scenario of a trial.
- `trials`: Trials of a search.
"""
