"""Names that a misspelt word was most likely meant to be."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from fleetsim.quoting import MAX_VALUE, quoted

_LEAST_SHARE = 2 / 3
"""Share of the letters of two words that they must have in common, in the same order."""
_LEAST_PART = 4
"""Letters that a word needs to count as part of a longer one."""


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that `word` was most likely meant to be; None if none is near.

    A candidate is near if two thirds of the letters of both words are the same by `difflib`, or if
    one word contains the other. Of equally near candidates the first in the alphabet is returned.
    Case, dashes and underscores do not count.

    >>> nearest("power_of_choise", ["random", "oort", "power-of-choice"])
    'power-of-choice'
    >>> nearest("cosine", ["exponential", "none"]) is None
    True
    """
    if len(word) > MAX_VALUE:
        return None
    plain, names = folded(word), {name: folded(name) for name in sorted(candidates)}
    share_of = {name: SequenceMatcher(None, plain, names[name]).ratio() for name in names}
    best = max(share_of, key=share_of.__getitem__, default=None)
    if best is not None and share_of[best] >= _LEAST_SHARE:
        return best
    parts = [
        name
        for name, other in names.items()
        if min(len(plain), len(other)) >= _LEAST_PART and (plain in other or other in plain)
    ]
    return min(parts, key=len, default=None)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return the end of a message: `; did you mean 'x'?`, or nothing."""
    close = nearest(word, candidates)
    return f"; did you mean {quoted(close)}?" if close is not None else ""


def folded(word: str) -> str:
    """Return a text in which keys and words are spelled alike: over_commit and over-commit."""
    return word.lower().replace("_", "-")
