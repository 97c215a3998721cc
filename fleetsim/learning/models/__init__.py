"""Models: networks that a scenario can name, their weights as one vector, and their cost.

- `settings`: Settings of the models that a scenario can name, without torch.
- `model_kind`: Interfaces of the models that a scenario can name.
- `networks`: Networks of scenarios: building, and drawing of the initial weights.
- `small`: Small networks of the federated papers, layer by layer.
- `vision`: Published image networks in their form for small images, such as CIFAR's 32 x 32 pixels.
- `text`: Networks for text: from tokens [n, t] int64 to logits of the sample or of every position.
- `dropout`: Dropout whose masks are drawn from the address of a job, not from a shared generator.
- `flat_vector`: Flat vector of a network's weights with its layout, and frozen weights.
- `cost`: Cost of a model for a device: FLOP by operation class, parameters, bytes on the wire.
- `paper_cost`: Model that exists on paper only: its cost, for runs without training.
- `model_fault`: Faults of a network of the user's own, each one line.
- `synthetic_samples`: Samples and labels of a data set's form, drawn at random.
"""
