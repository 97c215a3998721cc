"""Search for cases that break a rule, drawn from a strategy and run in a sandbox."""

import hashlib
import re
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase

from tests.fuzz.case import Case
from tests.fuzz.cases import TARGETS
from tests.fuzz.sandbox import Sandbox
from tests.fuzz.verdict import faults

_CASES_OF_A_SEED = 10
"""Number of cases per seed; hypothesis draws many similar cases from one seed."""


@dataclass
class Tally:
    """Counts of a search."""

    num_cases: int = 0
    num_refused: int = 0
    """Number of commands that ended with exit code 2."""
    num_warned: int = 0
    """Number of commands that ended well, with a warning."""
    faults: Counter[str] = field(default_factory=Counter)
    """Number of cases per fault, by its text without the parts that differ between cases."""


def search(target: str, seed: int, num_cases: int, keep: Path) -> Tally:
    """Run cases of a target; the same seed draws the same cases."""
    tally = Tally()
    with Sandbox() as sandbox, tempfile.TemporaryDirectory(prefix="fuzz-") as place:

        def look(case: Case) -> None:
            folder = Path(place) / "case"
            folder.mkdir()
            case.write(folder)
            tally.num_cases += 1
            for words in case.commands:
                ending = sandbox.run(words, folder)
                tally.num_refused += ending.exit_code == 2
                tally.num_warned += ending.exit_code == 0 and "warning: " in ending.stderr
                draws = words[0] in ("report", "compare", "study")
                found = [*faults(ending, case, draws_figures=draws), *case.touched(folder)]
                for message in found:
                    tally.faults[f"{target}: {_without_numbers(message)}"] += 1
                if found:
                    _keep(case, words, [*found, ending.stderr[-6000:]], keep / target)
            shutil.rmtree(folder)

        for part in range(0, num_cases, _CASES_OF_A_SEED):
            _draw(target, look, (seed, part), min(_CASES_OF_A_SEED, num_cases - part))
    return tally


def _draw(target, look, address, num_cases) -> None:
    """Pass cases of a target, drawn from an address, to a function."""
    strategy, _ = TARGETS[target]

    @hypothesis.seed(int(hashlib.sha256(repr(address).encode()).hexdigest()[:12], 16))
    @hypothesis.settings(
        max_examples=num_cases,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(strategy())
    def shown(case: Case) -> None:
        look(case)

    shown()


def _without_numbers(says: str) -> str:
    return re.sub(r"[0-9]+(\.[0-9]+)?", "0", says)[:160]


def _keep(case: Case, words: tuple[str, ...], found: list[str], below: Path) -> None:
    """Write a case to disk, so that it can be run again by hand."""
    text = "\n".join(found)
    name = hashlib.sha256(_without_numbers(found[0]).encode()).hexdigest()[:10]
    folder = below / name
    if folder.exists():
        return
    folder.mkdir(parents=True)
    case.write(folder)
    (folder / "FAULT.txt").write_text(f"fleetsim {' '.join(words)}\n{text}\n", "utf-8", "replace")
