"""Small server with made-up clients, whose views a selector sees when it is checked.

Every view, report and outcome is a function of client and round, with new arrays in each.
"""

from collections.abc import Sequence

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    Evaluation,
    FleetView,
    Outcome,
    Parameters,
    ProbeRequest,
    Purpose,
    Report,
    Resources,
    RoundOutcome,
    RoundView,
    WorkKind,
)

_SEED = 1
_NUM_PARAMETERS = 8
_ROUND_S = 60.0
_FATES = (Outcome.DELIVERED, Outcome.DELIVERED, Outcome.DELIVERED, Outcome.LATE, Outcome.OFFLINE)


class SmallServer:
    """Server of twenty clients of which two thirds are there in a round."""

    num_clients = 20
    cohort = 4
    wanted = 5
    """Cohort with over-commitment."""

    def __init__(self) -> None:
        self.round = 0
        """Number of the round; 0 before the first."""

    def fleet(self) -> FleetView:
        """Return what a server knows before the first round."""
        draws = rng.stream(_SEED, "plug-in check/fleet")
        num_samples = draws.integers(20, 200, self.num_clients)
        return FleetView(
            seed=_SEED,
            num_samples=num_samples,
            cohort=self.cohort,
            epochs=2,
            batch_size=10,
            learning_rate=0.1,
            planned_rounds=30,
            parameters=self._model(0),
            payload_byte=4 * _NUM_PARAMETERS,
            validation=self._validation(0),
            clients_hash="0" * 64,
            layer_counts={"gemm": 2},
            label_coverage=rng.stream(_SEED, "plug-in check/labels").uniform(
                0.1, 1.0, self.num_clients
            ),
        )

    def view(self, reports: Sequence[Report], *, stage: int = 0) -> RoundView:
        """Return what a server knows when it selects."""
        there = rng.stream(_SEED, "plug-in check/there", self.round).random(self.num_clients)
        candidates = np.flatnonzero(there < 2 / 3)
        return RoundView(
            round=self.round,
            now_s=_ROUND_S * self.round,
            wanted=self.wanted,
            candidates=candidates,
            num_samples=self.fleet().num_samples[candidates],
            parameters=self._model(self.round - 1),
            reports=tuple(reports),
            stage=stage,
            learning_rate=0.1,
        )

    def probed(self, request: ProbeRequest) -> Report:
        """Return the report to a probe."""
        kind = request.work.kind
        return self._report(
            request.client,
            Purpose.PROBE,
            asks_resources=request.asks_resources,
            has_vector=request.uploads_vector and kind in (WorkKind.TRAIN, WorkKind.GRADIENT),
            tells_epochs=request.work.tells_epoch_losses,
        )

    def outcome(self, cohort: Cohort) -> RoundOutcome:
        """Return the outcome of a round with this cohort."""
        reports = tuple(
            self._report(
                client, Purpose.TRAIN, has_vector=True, tells_epochs=cohort.asks_epoch_losses
            )
            for client in cohort.clients.tolist()
        )
        return RoundOutcome(
            round=self.round,
            started_at_s=_ROUND_S * self.round,
            finished_at_s=_ROUND_S * (self.round + 1),
            selected=cohort.clients.copy(),
            reports=reports,
            aggregated=any(report.is_delivered for report in reports),
            parameters=self._model(self.round),
            validation=self._validation(self.round),
        )

    def _report(
        self,
        client: int,
        purpose: Purpose,
        *,
        asks_resources: bool = False,
        has_vector: bool = False,
        tells_epochs: bool = False,
    ) -> Report:
        draws = rng.stream(_SEED, "plug-in check/report", client, self.round)
        change = draws.normal(size=_NUM_PARAMETERS)
        outcome = self._outcome(draws)
        loss = float(draws.exponential()) / (self.round + 1)
        duration_s = float(draws.uniform(1.0, _ROUND_S))
        vector = (self._model(self.round) + change).astype(np.float32)
        begins_s = _ROUND_S * self.round
        num_samples = int(self.fleet().num_samples[client])
        known = Report(client, purpose, outcome, begins_s, begins_s + duration_s, num_samples)
        if not known.is_delivered:
            return known
        return known._replace(
            download_s=0.2 * duration_s,
            compute_s=0.5 * duration_s,
            upload_s=0.3 * duration_s,
            loss=loss,
            loss_rms=1.1 * loss,
            accuracy=float(np.exp(-loss)),
            vector=vector if has_vector else None,
            update_norm=float(np.linalg.norm(vector - self._model(self.round))),
            energy_j=2.0 * duration_s,
            base=self._model(self.round) if purpose is Purpose.TRAIN else None,
            epoch_losses=(1.5 * loss, loss) if tells_epochs else None,
            resources=self._resources(client) if asks_resources else None,
        )

    def _outcome(self, draws: np.random.Generator) -> Outcome:
        return _FATES[int(draws.integers(len(_FATES)))]

    def _resources(self, client: int) -> Resources:
        draws = rng.stream(_SEED, "plug-in check/resources", client, self.round)
        return Resources(
            flop_per_s=float(draws.uniform(1e9, 1e11)),
            ram_byte=int(draws.integers(2**30, 2**33)),
            load_fraction=float(draws.uniform(0.0, 0.9)),
            is_charging=bool(draws.random() < 0.5),
            is_unmetered=True,
            battery_fraction=float(draws.uniform(0.2, 1.0)),
            samples_per_s=float(draws.uniform(1.0, 100.0)),
            down_bit_per_s=float(draws.uniform(1e6, 1e8)),
            up_bit_per_s=float(draws.uniform(1e6, 1e7)),
        )

    def _model(self, round_: int) -> Parameters:
        draws = rng.stream(_SEED, "plug-in check/parameters", round_)
        return draws.normal(size=_NUM_PARAMETERS).astype(np.float32)

    def _validation(self, round_: int) -> Evaluation:
        return Evaluation(accuracy=1.0 - 0.9 / (round_ + 1), loss=2.0 / (round_ + 1))
