"""Reward of a round: its latency and traffic, from the reports of probes and training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FleetView, Report, RoundOutcome
from fleetsim.selectors.fedmarl.equations import (
    Floats32,
    processing_latency_s,
    relative_latency,
    relative_traffic,
    reward,
    traffic_byte,
)
from fleetsim.selectors.fedmarl.settings import FedMarlKeys


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Choice of a round whose reward is not known yet."""

    states: Floats32
    """States of the agents [n, 6]."""
    continues: BoolArray
    """Their actions, as they are carried out [n]."""
    probes: Sequence[Report]
    """Last report of each client that was asked, whether it answered or not [p]."""


def round_reward(
    choice: Choice,
    outcome: RoundOutcome,
    accuracies: tuple[float, float],
    fleet: FleetView,
    settings: FedMarlKeys,
    num_rounds: int,
) -> float:
    """Return the reward of the agents for a round, with the accuracies before and after it.

    A client that failed counts with the seconds for which the server waited. Clients that continue
    count with all bytes of a model, also those that failed. The weights of latency and traffic are
    per run, of `num_rounds` rounds.
    """
    probed = [report.client for report in choice.probes]
    probe_s = np.array([report.duration_s for report in choice.probes], dtype=np.float64)
    place = {client: number for number, client in enumerate(probed)}
    continues = np.isin(probed, outcome.selected)
    rest_s, upload_s = np.zeros((2, continues.size))
    # Clients that were not probed have no agent.
    for report in (each for each in outcome.reports if each.client in place):
        upload_s[place[report.client]] = report.upload_s
        rest_s[place[report.client]] = report.duration_s - report.upload_s
    latency_s = processing_latency_s(probe_s, rest_s, upload_s, continues)
    traffic = traffic_byte(np.full(continues.size, float(fleet.payload_byte)), continues)
    before, after = accuracies
    return reward(
        after,
        before,
        relative_latency(latency_s, float(probe_s.max()), fleet.epochs),
        relative_traffic(traffic, fleet.payload_byte, fleet.cohort),
        accuracy_weight=settings.accuracy_weight,
        latency_weight=settings.latency_weight / num_rounds,
        traffic_weight=settings.traffic_weight / num_rounds,
    )
