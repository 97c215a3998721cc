"""Rehearsals of plug-ins without a run, which find broken contracts.

- `check`: `check_plugin`, for plug-ins of any kind.
- `watched_calls`: calls of methods, and what they must not do.
- `selectors`: rounds of a selector.
- `aggregators`: versions of a model.
- `partitions`: splits of samples.
- `datasets`: loadings of a data set.
- `trackers`: runs that a tracker follows.
- `client_trainings`: rounds of clients' own training.
- `losses`: losses of drawn logits.
- `models`: building and training of a network.
- `small_server`: made-up server of the selectors' rounds.
"""
