"""Names that a misspelt word was most likely meant to be."""

from collections.abc import Iterable

from fleetsim.quoting import MAX_VALUE, quoted

_LEAST_PART = 4
"""Letters that a word needs to count as part of a longer one."""


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that `word` was most likely meant to be; None if none is near.

    A candidate is near if at most a third of the letters of the longer word were mistyped, left
    out, added or swapped, or if one word contains the other. Of equally near candidates the first
    in the alphabet is returned. Case, dashes and underscores do not count.

    >>> nearest("power_of_choise", ["random", "oort", "power-of-choice"])
    'power-of-choice'
    >>> nearest("cosine", ["exponential", "none"]) is None
    True
    """
    if len(word) > MAX_VALUE:
        return None
    folded = _folded(word)
    near = [
        (distance, candidate)
        for candidate in candidates
        if (distance := _distance(folded, _folded(candidate))) is not None
    ]
    return min(near)[1] if near else None


def _distance(word: str, other: str) -> float | None:
    """Return the number of slips between two words; None if they are not near."""
    longer, shorter = max(len(word), len(other)), min(len(word), len(other))
    most = max(1, longer // 3)
    if longer - shorter <= most:
        slips = _slips(word, other)
        if slips <= most and 2 * slips < longer:
            return slips
    # A mere part of a name ranks after every slip.
    is_part = shorter >= _LEAST_PART and (word in other or other in word)
    return longer if is_part else None


def _slips(word: str, other: str) -> int:
    """Return the number of letters mistyped, left out, added, or swapped with their neighbour.

    This is the restricted distance of Damerau ("A technique for computer detection and correction
    of spelling errors", Communications of the ACM 7(3), 1964) and Levenshtein, row by row.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, start=1):
        last, before, row = before, row, [i]
        for j, its in enumerate(other, start=1):
            slips = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == its:
                slips = min(slips, last[j - 2] + 1)
            row.append(slips)
    return row[-1]


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return the end of a message: `; did you mean 'x'?`, or nothing."""
    close = nearest(word, candidates)
    return f"; did you mean {quoted(close)}?" if close is not None else ""


def _folded(word: str) -> str:
    return word.lower().replace("_", "-")
