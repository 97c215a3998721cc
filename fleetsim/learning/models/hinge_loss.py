"""Hinge losses of a linear support vector machine for several classes; see docs/models/models.md.

Where several scores are the maximum, or a margin is met exactly, the gradient is that of one side.
"""

from torch import Tensor, nn
from torch.nn.functional import relu

from fleetsim.learning.models.model_kind import Hinge
from fleetsim.learning.models.vision import Layers


class LinearSvm(nn.Sequential):
    """One linear layer with a hinge loss."""

    def __init__(self, layers: Layers, hinge: Hinge) -> None:
        super().__init__(layers)
        self.hinge: Hinge = hinge

    def losses(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the hinge loss of each sample [n], from scores [n, C] and labels [n] int64."""
        right = labels.unsqueeze(1)
        right_scores = scores.gather(1, right)
        match self.hinge:
            case "crammer-singer":
                # The right class itself, without the margin, gives the 0 of the maximum.
                margins = (scores + 1).scatter(1, right, right_scores)
                return margins.max(dim=1).values - right_scores.squeeze(1)
            case "weston-watkins":
                return relu(scores - right_scores + 1).scatter(1, right, 0.0).sum(dim=1)
            case "one-vs-rest":
                return relu((scores + 1).scatter(1, right, 1 - right_scores)).sum(dim=1)
