"""Check of the extra `privacy`: epsilon of a private run, which grows with the rounds."""

import fleetsim

run = fleetsim.run("quickstart-private", {"stop.rounds": 2}, out="run")
spent = run.rounds["epsilon"].tolist()
assert 0.0 < spent[0] < spent[1] == run.epsilon, spent
print(f"epsilon {spent}")
