"""Random world: clients come, leave, answer and fail at random, in no time."""

from dataclasses import replace

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    Evaluation,
    FleetView,
    Outcome,
    ProbeRequest,
    Purpose,
    Report,
    Resources,
    RoundOutcome,
    RoundView,
    Selector,
    Work,
    WorkKind,
)

NUM_PARAMETERS = 6


class Stage:
    """Plays rounds with a selector; every seed is another world."""

    def __init__(self, seed: int, *, num_clients: int = 12, cohort: int = 4, planned: int = 60):
        self.dice = rng.stream(seed, "tests/stage")
        self.num_samples = self.dice.integers(3, 60, num_clients)
        self.pace = np.exp(self.dice.normal(0.0, 0.5, num_clients))
        self.model, self.evaluation = self._vector(), self._evaluation()
        self.reports: list[Report] = []
        self.planned = planned
        self.fleet = FleetView(
            seed=seed,
            num_samples=self.num_samples,
            cohort=cohort,
            epochs=3,
            batch_size=8,
            learning_rate=0.1,
            planned_rounds=planned,
            parameters=self.model,
            payload_byte=40_000,
            validation=self.evaluation,
            layer_counts={"conv": 12, "depthwise": 1, "gemm": 3, "rnn": 6},
            label_coverage=np.arange(num_clients) % 5 / 4,
        )

    def play(self, selector: Selector, rounds: int | None = None) -> None:
        assert not selector.setup(self.fleet), "no selector asks before the first round"
        for round_ in range(1, (rounds or self.planned) + 1):
            view = self._view(round_)
            while requests := selector.probe(view):
                self.reports += [self._answer(request, view) for request in requests]
                stayed = view.candidates[self.dice.random(view.candidates.size) < 0.97]
                view = replace(
                    view,
                    stage=view.stage + 1,
                    reports=tuple(self.reports),
                    candidates=stayed,
                    num_samples=self.num_samples[stayed],
                )
            answer = selector.select(view)
            self.reports = []
            self._train(selector, view, answer)

    def _view(self, round_: int) -> RoundView:
        there = np.flatnonzero(self.dice.random(self.num_samples.size) < 0.8)
        return RoundView(
            round=round_,
            now_s=100.0 * round_,
            wanted=self.fleet.cohort + round_ % 2,
            candidates=there,
            num_samples=self.num_samples[there],
            parameters=self.model,
            learning_rate=0.1 * 0.98 ** (round_ - 1),
        )

    def _train(self, selector: Selector, view: RoundView, answer) -> None:
        cohort = answer if isinstance(answer, Cohort) else Cohort(answer)
        work = Work(WorkKind.TRAIN, epochs=self.fleet.epochs)
        reports = [
            self._answer(ProbeRequest(client, work), view, Purpose.TRAIN)
            for client in cohort.clients.tolist()
        ]
        if cohort.asks_epoch_losses:
            reports = [self._with_epochs(report) for report in reports]
        # What was delivered may be refused, or be too little.
        is_enough = self.dice.random() < 0.9
        is_aggregated = is_enough and any(report.is_delivered for report in reports)
        if is_aggregated:
            self.model, self.evaluation = self._vector(), self._evaluation()
        selector.observe(
            RoundOutcome(
                round=view.round,
                started_at_s=view.now_s,
                finished_at_s=view.now_s + 50.0,
                selected=cohort.clients,
                reports=tuple(reports),
                aggregated=is_aggregated,
                parameters=self.model,
                validation=self.evaluation,
            )
        )

    def _answer(
        self, request: ProbeRequest, view: RoundView, purpose: Purpose = Purpose.PROBE
    ) -> Report:
        client, kind = request.client, request.work.kind
        is_delivered = self.dice.random() < 0.85
        phases_s = self.pace[client] * np.exp(self.dice.normal(0.0, 0.2, 3)) * [1.0, 9.0, 3.0]
        loss = float(np.exp(self.dice.normal(0.0, 0.7)))
        if self.dice.random() < 0.02:
            loss = float("nan")
        report = Report(
            client=client,
            purpose=purpose,
            outcome=Outcome.DELIVERED if is_delivered else Outcome.LATE,
            dispatched_at_s=view.now_s,
            finished_at_s=view.now_s + float(phases_s.sum()),
            num_samples=int(self.num_samples[client]),
        )
        # Dice are thrown for all, whatever was asked.
        vector, resources = self._vector(), self._resources()
        accuracy, rms = float(self.dice.random()), loss * float(1.0 + self.dice.random())
        if not is_delivered:
            return report
        is_training = kind is WorkKind.TRAIN
        return report._replace(
            download_s=float(phases_s[0]),
            compute_s=float(phases_s[1]),
            upload_s=float(phases_s[2]),
            loss=loss if kind in (WorkKind.TRAIN, WorkKind.EVALUATE) else None,
            loss_rms=rms if is_training else None,
            accuracy=accuracy if kind is WorkKind.EVALUATE else None,
            vector=vector if kind in (WorkKind.TRAIN, WorkKind.GRADIENT) else None,
            energy_j=2.0 * float(phases_s.sum()),
            base=self.model if is_training else None,
            resources=resources if request.asks_resources else None,
        )

    def _with_epochs(self, report: Report) -> Report:
        if not report.is_delivered or report.loss is None:
            return report
        first, second = self.dice.random(2)
        return report._replace(epoch_losses=(3.0 * first, 2.0 * second, report.loss))

    def _vector(self):
        return self.dice.normal(0.0, 1.0, NUM_PARAMETERS).astype(np.float32)

    def _evaluation(self) -> Evaluation:
        """In tenths, so that accuracy often stays while loss moves."""
        return Evaluation(
            accuracy=float(self.dice.integers(0, 4)) / 10.0, loss=float(np.exp(self.dice.normal()))
        )

    def _resources(self) -> Resources:
        speed, down, up, flop = np.exp(self.dice.normal(0.0, 1.0, 4))
        ram_byte = int(self.dice.integers(1, 5)) << 30
        is_watched = self.dice.random() < 0.5
        return Resources(
            flop_per_s=float(1e9 * flop),
            ram_byte=ram_byte,
            free_ram_byte=ram_byte // 3 if is_watched else None,
            load_fraction=float(0.9 * self.dice.random()),
            is_charging=True,
            is_unmetered=True,
            battery_fraction=None,
            samples_per_s=float(10.0 * speed),
            down_bit_per_s=float(1e5 * down) if self.dice.random() < 0.97 else 0.0,
            up_bit_per_s=float(5e4 * up),
        )
