"""The verb `validate`: check a scenario without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fleetsim.cli.scenario_options import (
    PluginOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    load,
)

if TYPE_CHECKING:
    from fleetsim.scenario import Scenario


def validate(
    scenario: ScenarioArgument,
    seed: SeedOption = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
) -> None:
    """Check a scenario without running it, and show it resolved."""
    loaded = load(scenario, set_, seed, plugin)
    loaded.build_selector()
    _check_own_files(loaded)
    import numpy as np

    from fleetsim.fleet.usage.loading import load_trace

    load_trace(loaded.fleet.usage, seed=loaded.seed)
    loaded.fleet.channel.build(seed=loaded.seed, is_wired=np.zeros(1, dtype=np.bool_))
    typer.echo(loaded.to_yaml(), nl=False)


def _check_own_files(scenario: Scenario) -> None:
    """Read and split a data set in the user's own files, which have no checksum.

    Raises:
        DataError: its files are wrong.
        ScenarioError: a key does not suit them, or they hold too little for the fleet.
    """
    from fleetsim.learning.data.blank import BlankSettings
    from fleetsim.learning.data.loading import load_dataset
    from fleetsim.scenario import samples_of

    dataset = scenario.task.dataset
    if not isinstance(dataset, BlankSettings) and dataset.is_own_files:
        read = load_dataset(dataset, seed=scenario.seed, num_clients=scenario.fleet.size)
        samples_of(scenario, read)
