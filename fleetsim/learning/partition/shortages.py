"""Requirements of a scenario that its data set cannot meet.

Only numbers are compared, so that a scenario is refused before its samples are read. Faults that
depend on labels are found at the split (`fleetsim.learning.partition.client_samples`).
"""

from collections.abc import Iterator
from pathlib import Path

from fleetsim.counts import floor_product
from fleetsim.learning.data.loading import DatasetSettings
from fleetsim.learning.partition.split import PartitionSettings
from fleetsim.schema.faults import Fault


def shortages(
    dataset: DatasetSettings,
    partition: PartitionSettings,
    *,
    num_clients: int,
    validation_fraction: float,
    holdout_fraction: float,
    user_folder: Path | None,
) -> Iterator[Fault]:
    """Yield the keys that need more samples or natural clients than the data set has.

    The fractions are those of `split_samples`. Files of the user's own data set are not read if
    `user_folder` is None.
    """
    # The server may keep all samples of a label; then only the split finds the fault.
    num_labels = dataset.num_labels() if validation_fraction == 0.0 else None
    wrong = partition.wrong_fleet_size(num_clients=num_clients, num_labels=num_labels)
    if wrong is not None:
        yield wrong
    num_samples = dataset.num_training(user_folder)
    if num_samples is not None:
        num_samples -= floor_product(validation_fraction, num_samples)
        short = partition.shortage(num_samples=num_samples, num_clients=num_clients)
        if short is not None:
            yield short
            return
        if holdout_fraction > 0.0 and 2 * num_clients > num_samples:
            message = (
                f"{num_clients} clients need 2 samples each to hold one out, but there are"
                f" {num_samples}; lower fleet.size, or leave it out"
            )
            yield ("task", "holdout_fraction"), message
    if partition.uses_owners:
        num_owners = dataset.num_natural(user_folder)
        if num_owners == 0:
            yield ("task", "partition", "kind"), dataset.without_clients(user_folder)
        elif num_owners is not None and num_clients > num_owners:
            message = f"the data set has {num_owners} clients of its own; set it to that or less"
            yield ("fleet", "size"), message
