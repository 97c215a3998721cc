"""Samples of the clients of a scenario, and what is missing from a data set that is too small."""

from collections.abc import Iterator
from pathlib import Path

from fleetsim.counts import floor_product
from fleetsim.fleet.population import paired_users
from fleetsim.learning.data.built_in import BlankSettings
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.partition.client_samples import ClientSamples, split_samples
from fleetsim.scenario.settings import Scenario
from fleetsim.schema.faults import Fault


def too_few_samples(scenario: Scenario, user_folder: Path | None = None) -> Iterator[Fault]:
    """Yield the keys that need more samples or natural clients than the data set has.

    Only numbers are compared, so that a scenario is refused before its samples are read. Faults
    that depend on labels are found at the split. The user's files are not read if `user_folder` is
    None.
    """
    task, num_clients = scenario.task, scenario.fleet.size
    if isinstance(task.dataset, BlankSettings):
        return
    kept = scenario.evaluate.validation_fraction
    # The server may keep all samples of a label; then only the split finds the fault.
    num_labels = task.dataset.num_labels() if kept == 0.0 else None
    wrong = task.partition.wrong_fleet_size(num_clients=num_clients, num_labels=num_labels)
    if wrong is not None:
        yield wrong
    num_samples = task.dataset.num_training(user_folder)
    if num_samples is not None:
        num_samples -= floor_product(kept, num_samples)
        short = task.partition.shortage(num_samples=num_samples, num_clients=num_clients)
        if short is not None:
            yield short
            return
        if task.holdout_fraction > 0.0 and 2 * num_clients > num_samples:
            message = (
                f"{num_clients} clients need 2 samples each to hold one out, but there are"
                f" {num_samples}; lower fleet.size, or leave it out"
            )
            yield ("task", "holdout_fraction"), message
    if task.partition.uses_owners:
        num_owners = task.dataset.num_natural(user_folder)
        if num_owners == 0:
            yield ("task", "partition", "kind"), task.dataset.without_clients(user_folder)
        elif num_owners is not None and num_clients > num_owners:
            message = f"the data set has {num_owners} clients of its own; set it to that or less"
            yield ("fleet", "size"), message


def samples_of(scenario: Scenario, dataset: Dataset) -> ClientSamples:
    """Assign the samples of a data set to the server and to every client of a scenario."""
    task = scenario.task
    return split_samples(
        dataset,
        task.partition,
        num_clients=scenario.fleet.size,
        validation_fraction=scenario.evaluate.validation_fraction,
        holdout_fraction=task.holdout_fraction,
        holdout_from=task.holdout_from,
        seed=scenario.clients_seed,
        paired=paired_users(scenario.fleet, scenario.files),
    )
