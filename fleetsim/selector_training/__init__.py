"""Training of selectors before they are used, and what it costs.

- `episodes`: selectors that learn over runs in a row.
- `study_records`: records of selections from the runs of a study.
- `record_training`: selectors that learn from records.
- `weight_writing`: weight files on the disk.
- `break_even`: runs after which the cost of training is saved.
"""
