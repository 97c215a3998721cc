"""Kinds of plug-in: settings in the scenario, guards in a run, and rehearsals without one.

- `selectors`: Selectors of the user's own.
- `aggregators`: Aggregators of the user's own.
- `partitions`: Partitions of the user's own.
- `datasets`: Data sets of the user's own.
- `models`: Networks and losses of the user's own.
- `checked_loss`: Loss of the user's own.
- `trackers`: Trackers of the user's own, which change no result.
- `client_trainings`: Own training of clients: algorithms of the user's own.
- `client_rounds`: Rehearsal of own training.
"""
