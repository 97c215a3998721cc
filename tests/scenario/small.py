"""A small scenario, and changes of it that give its devices owners."""

BASE = """\
name: inert
task:
  dataset: {kind: digits}
  model: {kind: logistic}
  local: {epochs: 1, batch_size: 64, optimizer: {kind: sgd, learning_rate: 0.1}}
fleet:
  size: 6
  devices: {pixel-6: 0.5, t2.small: 0.5}
  channel: {kind: normalised}
server: {cohort: 2}
stop: {rounds: 2}
"""

PEOPLE = "fleet.usage.trace=people-week"
MADE_UP = "fleet.usage.synthetic={availability: 0.9}"
