"""Search over keys of a scenario for the lowest costs, several seeds a trial.

- `settings`: Settings of a search: keys with their ranges, the objective, and the number of trials.
- `page`: The page of a search.
- `sampling`: Choice of the parameters of trials, by the tree-structured Parzen estimator of Optuna.
- `search_file`: A search file as loaded.
- `searching`: Search.
- `trials`: Trials of a search.
"""
