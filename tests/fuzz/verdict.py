"""Rules that the end of every command must meet, whatever its input.

Exit 0, or exit 2 with lines that each name one place and one way out; no traceback, no text of a
library, no hang, no gigabyte.
"""

import re
from typing import Final

from tests.fuzz.case import Case
from tests.fuzz.sandbox import Ending

MOST_S: Final = 5.0
"""Limit of the processor time of a command."""
MOST_OF_PAGES_S: Final = 20.0
"""Limit for a command that draws figures; a good one takes four seconds."""
MOST_BYTE: Final = 1 << 30
MOST_LINES: Final = 22
MOST_CHARACTERS: Final = 900
_FOREIGN: Final = (
    r"Traceback \(most recent call last\)",
    r"\b(?:[A-Z][A-Za-z]*)?(?:Error|Exception|Warning)\b",
    r"Input should|validation error|For further information|(?<!versions\.)pydantic",
    r"<[\w.]+ object at 0x[0-9a-f]+>|np\.(?:int|float)\d+\(|\bNoneType\b|PosixPath\(",
)
_QUOTED: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
"""Text of the user, which may look like a library's text."""
_PLACE: Final = re.compile(
    r"^(?:error|warning): (?:not enough memory|[0-9]+ of [0-9]+ runs failed|fleetsim\b|--[a-z-]+|"
    r"the runs |[^:;]{1,400}:[0-9 ]|"
    r"[\w.\[\]'\"-]+ (?:=|is|has|must) |[^ ]*/[^ ]* )"
)
_WAY_OUT: Final = re.compile(
    r"; [a-z`'{]|: write |must (?:be|have|hold|match|not|return|sum|name)|missing|, not an? |"
    r"did you mean|it is a key of"
)
"""Pattern of the way out: a second clause after the fault, or the required value."""
_PLAIN: Final = Case((), {})
_MORE: Final = re.compile(r"error: \.\.\. and \d+ more$")


def faults(ending: Ending, case: Case = _PLAIN, *, draws_figures: bool = False) -> list[str]:
    """Describe the rules that the end of a command breaks; empty if there are none.

    Code of the user's own may end a command by a signal, and make a training diverge (code 1).
    """
    if ending.exit_code is None:
        return ["hangs or dies: no answer"]
    found = []
    said = case.without_own(ending.stderr)
    if ending.exit_code in case.endings:
        return [f"foreign text {text!r}" for text in _matches(said)]
    # Code 1 says that runs of a study failed, or that a training diverged.
    may_fail = case.own_file is not None or "runs failed; the page says why" in said
    if ending.exit_code not in ((0, 1, 2) if may_fail else (0, 2)):
        found.append(f"exit code {ending.exit_code}")
    found += ["called a bug of fleetsim"] * ("a bug of fleetsim" in said)
    found += [f"foreign text {text!r}" for text in _matches(said)]
    if ending.processor_s > (MOST_OF_PAGES_S if draws_figures else MOST_S):
        found.append(f"{ending.processor_s:.1f} s of processor time")
    if ending.grown_byte > MOST_BYTE:
        found.append(f"{ending.grown_byte / 2**30:.2f} GiB")
    lines = said.splitlines()
    if ending.exit_code == 2 and not any(line.startswith("error: ") for line in lines):
        found.append("exit code 2 without an error line")
    if len(lines) > MOST_LINES:
        found.append(f"{len(lines)} lines")
    for line in lines:
        found += [f"{what}: {line[:300]!r}" for what in _faults_of(line)]
    return found


def _matches(said: str) -> list[str]:
    own = _QUOTED.sub("''", said)
    return [match[0] for pattern in _FOREIGN if (match := re.search(pattern, own))]


def _faults_of(line: str) -> list[str]:
    found = []
    if len(line) > MOST_CHARACTERS:
        found.append(f"a line of {len(line)} characters")
    if not line.isprintable():
        found.append("not printable")
    if _MORE.match(line):
        return found
    if line.startswith("error: "):
        if not _PLACE.match(line):
            found.append("no place")
        if not _WAY_OUT.search(line):
            found.append("no way out")
    elif not line.startswith(("error: ", "warning: ", "note: ")):
        found.append("neither error nor warning")
    return found
