"""Training of networks of the user's own: checks, and the choice of a trainer by proof.

- `trial`: a few clients with drawn samples, on which a network is tried.
- `training_checks`: checks of a network's training on these clients.
- `trainer_proof`: proof that a trainer equals the serial one on a network, in float64.
- `trainer_choice`: the fastest trainer that is proved, by a fixed rule.
"""
