"""Training of selectors before they are used, and what it costs.

- `episodes`: Selectors that learn over episodes.
- `record_training`: Selectors that learn from records: FedGCS, one fit for each fleet of a study.
- `weight_writing`: Weight files on the disk, to which training adds the weights of further fleets.
- `break_even`: Runs after which the cost of training a selector is saved.
"""
