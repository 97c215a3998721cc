"""Trackers: what follows a run elsewhere than in its folder.

- `named`: Trackers of fleetsim and their names, such as `tensorboard` or `tensorboard=logs`.
- `following`: Calls of trackers during a run, behind its recorder.
"""
