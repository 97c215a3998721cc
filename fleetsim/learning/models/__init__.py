"""Models: networks that a scenario can name, their weights as one vector, and their cost.

- `settings`: models that a scenario can name.
- `model_kind`: interface of a model.
- `networks`: building of a network and drawing of its initial weights.
- `small`: small networks of the federated papers.
- `vision`: ResNet-18, VGG-16 and ShuffleNet v2 for small images.
- `text`: LSTM and GPT-2.
- `hinge_loss`: hinge losses of a linear support vector machine.
- `dropout`: dropout with masks drawn from the address of a job.
- `flat_vector`: flat vector of a network's weights, and its layout.
- `frozen_weights`: weights of a network that are not trained, which nothing may change.
- `cost`: FLOP, parameters and bytes of a network.
- `paper_cost`: cost of a model that exists on paper only.
- `user_model_kind`: interface of a network of the user's own.
- `model_fault`: faults of such a network, each one line.
- `synthetic_samples`: samples and labels of a data set's form, to try a network with.
"""
