"""Experiment of a paper: figures and claims on the arms of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleetsim.studies.study import Study, load_study

RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of a paper that a measure is better with one arm than with another."""

    measure: str
    """Name in `measures.MEASURES`."""
    order: tuple[str, ...]
    """Arms, the best first."""
    best_is: str
    """Direction of the measure: `least` or `most`."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Figures and claims of a paper on the arms of a study."""

    name: str
    """Name of the study in `studies/papers`."""
    label: str
    """Name in a figure."""
    measures: tuple[str, ...]
    """Columns of its table, names in `measures.MEASURES`."""
    claims: tuple[Claim, ...]
    papers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Figures of the paper by arm and measure, as printed there."""
    short_rounds: int = 20
    """Number of rounds with `--short`, which takes minutes."""
    is_in_figure: bool = True
    """Its costs are shown in papers.svg."""

    def study(self, seeds: Sequence[int] | None = None, *, is_short: bool = False) -> Study:
        """Load its study, with other seeds or few rounds if asked."""
        rounds = [f'overrides."stop.rounds"={self.short_rounds}'] if is_short else []
        loaded = load_study(f"papers/{self.name}", rounds)
        return loaded if seeds is None else loaded.with_seeds(seeds)


def over_others(best: str, others: Sequence[str], measure: str, best_is: str) -> list[Claim]:
    """Return the claims that one arm is better in a measure than each of the others."""
    return [Claim(measure, (best, other), best_is) for other in others]
