"""Kinds of plug-in: settings in the scenario, guards in a run, and rehearsals without one.

- `selectors`: the kind `selector`.
- `small_server`: made-up server of a selector's rehearsal.
- `aggregators`: the kind `aggregator`.
- `partitions`: the kind `partition`.
- `datasets`: the kind `dataset`.
- `trackers`: the kind `tracker`.
- `client_trainings`: the kind `local`.
- `client_rounds`: rehearsal of clients' own training, with torch.
- `losses`: the kind `loss`.
- `checked_loss`: a loss in a run, each of whose answers is checked, and its trial.
- `models`: the kind `model`.
"""
