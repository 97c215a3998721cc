"""Check of the extra `flwr-datasets`: a run on shards of a partitioner of the library."""

import fleetsim

partition = {
    "kind": "flwr-datasets",
    "partitioner": "DirichletPartitioner",
    "arguments": {"alpha": 0.5, "min_partition_size": 2},
}
run = fleetsim.run("quickstart", {"task.partition": partition, "stop.rounds": 2}, out="run")
samples = run.clients["num_samples"]
assert samples.min() >= 2
assert samples.nunique() > 1
print(f"{len(samples)} clients with {samples.min()} to {samples.max()} samples")
