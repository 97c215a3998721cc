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
from tests.fuzz.sandbox import sandbox
from tests.fuzz.verdict import faults

_CASES_OF_A_SEED = 10
"""Number of cases per seed; hypothesis draws many similar cases from one seed."""


@dataclass
class Tally:
    """Counts of a search."""

    num_cases: int = 0
    num_commands: int = 0
    num_refused: int = 0
    """Number of commands that ended with exit code 2."""
    num_warned: int = 0
    """Number of commands that ended well, with a warning."""
    most_s: float = 0.0
    most_byte: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """Number of cases per fault, by its text without the parts that differ between cases."""

    def line(self) -> str:
        """The counts, on one line."""
        return (
            f"{self.num_cases} cases, {self.num_commands} commands, {self.num_refused} refused, "
            f"{self.num_warned} warned, at most {self.most_s:.2f} s and "
            f"{self.most_byte / 2**20:.0f} MiB, {self.faults.total()} faults"
        )


def search(target: str, seed: int, num_cases: int, *, keep: Path | None = None) -> Tally:
    """Run cases of a target; the same seed draws the same cases."""
    tally = Tally()
    strategy, _ = TARGETS[target]
    with sandbox() as run, tempfile.TemporaryDirectory(prefix="fuzz-") as place:

        def look(case: Case) -> None:
            folder = Path(place) / "case"
            folder.mkdir()
            case.write(folder)
            tally.num_cases += 1
            for words in case.commands:
                ending = run(words, folder)
                tally.num_commands += 1
                tally.num_refused += ending.exit_code == 2
                tally.num_warned += ending.exit_code == 0 and "warning: " in ending.stderr
                if ending.exit_code is not None:
                    tally.most_s = max(tally.most_s, ending.processor_s)
                    tally.most_byte = max(tally.most_byte, ending.grown_byte)
                draws = words[0] in ("report", "compare", "study")
                messages = [*faults(ending, case, draws_figures=draws), *case.touched(folder)]
                for message in messages:
                    tally.faults[f"{target}: {_without_numbers(message)}"] += 1
                if messages and keep is not None:
                    _keep(case, words, [*messages, ending.stderr[-6000:]], keep / target)
            shutil.rmtree(folder)

        for part in range(0, num_cases, _CASES_OF_A_SEED):
            settings = hypothesis.settings(
                max_examples=min(_CASES_OF_A_SEED, num_cases - part),
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            digest = hashlib.sha256(repr((seed, part)).encode()).hexdigest()
            seeded = hypothesis.seed(int(digest[:12], 16))
            seeded(settings(hypothesis.given(strategy())(look)))()
    return tally


def _without_numbers(message: str) -> str:
    return re.sub(r"[0-9]+(\.[0-9]+)?", "0", message)[:160]


def _keep(case: Case, words: tuple[str, ...], messages: list[str], below: Path) -> None:
    """Write a case to disk, so that it can be run again by hand."""
    folder = below / hashlib.sha256(_without_numbers(messages[0]).encode()).hexdigest()[:10]
    if folder.exists():
        return
    folder.mkdir(parents=True)
    case.write(folder)
    text = "\n".join([f"fleetsim {' '.join(words)}", *messages, ""])
    (folder / "FAULT.txt").write_text(text, "utf-8", "replace")
