"""Check of the extra `hf`: a run on a data set of the library, in memory and saved to disk."""

import datasets

import fleetsim

rows = {"x": [[k % 7, k % 3, 1.0] for k in range(3000)], "label": [k % 3 for k in range(3000)]}
parts = datasets.Dataset.from_dict(rows).train_test_split(test_size=100, seed=1)
parts["train"].save_to_disk("train")
parts["test"].save_to_disk("test")
accuracies = []
for name, data in (("memory", (parts["train"], parts["test"])), ("disk", ("train", "test"))):
    own = fleetsim.dataset(data, inputs="x", label="label")
    run = fleetsim.run("quickstart", {"stop.rounds": 2}, dataset=own, out=name)
    accuracies.append(run.rounds["accuracy"].tolist())
assert accuracies[0] == accuracies[1], accuracies
print(f"accuracy {accuracies[0]}")
