"""Setting of all tests of learning."""

import torch

# As in a run: small operations wait for a second thread longer than they take.
torch.set_num_threads(1)
