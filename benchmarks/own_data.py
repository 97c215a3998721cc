"""Generator of the data of W3: many small clients with equally many vectors each.

Vectors and labels are those of Synthetic(0, 0), iid, of Li et al. (MLSys 2020), as
`fleetsim.learning.data.built_in` draws them. Its users have unequal numbers of samples. All of
them draw from one distribution, so the samples are assigned again, sixty to a client.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetsim.learning.data.built_in import SyntheticSettings, generate_user

W3_FOLDER = "w3-vectors"
_CLIENTS, _SAMPLES, _TEST_SAMPLES = 1_000, 60, 10_000
_SEED = 1


def write_w3(folder: Path) -> Path:
    """Write `train.npz` and `test.npz`, with the same content in each call; return the folder."""
    settings = SyntheticSettings(alpha=0.0, beta=0.0, iid=True)
    needed = _CLIENTS * _SAMPLES + _TEST_SAMPLES
    inputs, labels, num_drawn, user = [], [], 0, 0
    while num_drawn < needed:
        drawn = generate_user(settings, seed=_SEED, user=user)
        inputs.append(drawn.inputs)
        labels.append(drawn.labels)
        num_drawn, user = num_drawn + len(drawn.labels), user + 1
    vectors, classes = np.concatenate(inputs)[:needed], np.concatenate(labels)[:needed]
    cut = _CLIENTS * _SAMPLES
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "test.npz", inputs=vectors[cut:], labels=classes[cut:])
    np.savez(
        folder / "train.npz",
        inputs=vectors[:cut],
        labels=classes[:cut],
        client=np.repeat(np.arange(_CLIENTS), _SAMPLES),
    )
    return folder.resolve()
