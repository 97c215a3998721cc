"""Samples of the clients of a scenario, and what is missing from a data set that is too small."""

from collections.abc import Iterator
from pathlib import Path

from fleetsim.fleet.paired_users import paired_users
from fleetsim.learning.data.blank import BlankSettings
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.partition.client_samples import ClientSamples, split_samples
from fleetsim.learning.partition.shortages import shortages
from fleetsim.scenario.settings import Scenario
from fleetsim.schema.faults import Fault


def too_few_samples(scenario: Scenario, user_folder: Path | None = None) -> Iterator[Fault]:
    """Yield what a data set of known size lacks; that of the user's files needs `user_folder`."""
    task = scenario.task
    if isinstance(task.dataset, BlankSettings):
        return iter(())
    return shortages(
        task.dataset,
        task.partition,
        num_clients=scenario.fleet.size,
        validation_fraction=scenario.evaluate.validation_fraction,
        holdout_fraction=task.holdout_fraction,
        user_folder=user_folder,
    )


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
