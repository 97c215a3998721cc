"""Check of the extra `tensorboard`: what a run wrote, read back by the library."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import fleetsim

run = fleetsim.run("quickstart", {"stop.rounds": 2}, trackers=["tensorboard=logs"], out="run")
events = EventAccumulator("logs/run").Reload().Scalars("energy_j")
assert [event.step for event in events] == [1, 2]
assert [event.wall_time for event in events] == run.rounds["finished_at_s"].tolist()
print(f"energy_j of rounds {[(event.step, event.value) for event in events]}")
