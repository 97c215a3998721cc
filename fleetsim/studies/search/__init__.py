"""Search over keys of a scenario for the lowest costs, several seeds a trial.

- `page`: The page of a search.
- `sampling`: Choice of the parameters of trials, by the tree-structured Parzen estimator of Optuna.
- `search_file`: A search file with its settings: keys with their ranges, and the objective.
- `searching`: Search.
- `trials`: Trials of a search.
"""
