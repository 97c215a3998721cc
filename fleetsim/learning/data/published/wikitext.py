"""WikiText-2 as a language model's task, with its articles as natural clients.

A line is split at white space, and every line, empty ones too, ends in a token of its own. By this
count the parts have the published 2,088,628, 217,646 and 245,569 tokens. An article begins at a
line " = Title = " between two empty lines; lines before the first title belong to the first
article. A sample's inputs are tokens c i .. c i + c - 1 of an article and its labels c i + 1 ..
c i + c, for context c and i = 0, 1, ... More is in docs/data.md.

The archive's checksum is that of ml-explore/mlx-data; those of the files in it, and of its form
with `<unk>`, are stated alike by several public projects.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.archives import read_zip
from fleetsim.learning.data.published.fetch import find_files, named_folder
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.tokens import check_memory, most_frequent, spread, windows
from fleetsim.schema.ranges import Samples
from fleetsim.settings import Settings

_ARCHIVE = "wikitext-2-raw-v1.zip"
_RAW = {part: f"wikitext-2-raw/wiki.{part}.raw" for part in ("train", "valid", "test")}
_TOKENS = {part: f"{part}.txt" for part in ("train", "valid", "test")}
_MAX_PART_BYTE = 20_000_000
_TITLE = re.compile(r" = [^=]+ = ?")
_UNKNOWN, _END_OF_LINE = "<unk>", "<eos>"
_NUM_BYTES = 256


class WordSettings(Settings):
    """Words of the training text as tokens."""

    kind: Literal["words"] = "words"
    vocabulary_size: Annotated[int, Ge(3), Le(1_000_000)] = 10_000
    """Tokens: the most frequent words, one for all others, and the end of a line."""


class ByteSettings(Settings):
    """The 256 bytes of the text in UTF-8 as tokens."""

    kind: Literal["bytes"] = "bytes"


class WikiText2Settings(DatasetKind):
    """WikiText-2: articles of Wikipedia, predict the next token (Merity et al. 2017)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["wikitext2"], SETS["wikitext2-tokens"])

    kind: Literal["wikitext2"] = "wikitext2"
    folder: str | None = None
    """Folder with the published files; by default `$FLEETSIM_DATA` and then the cache that
    `fleetsim data fetch wikitext2` (or `wikitext2-tokens`) fills."""
    form: Literal["raw", "tokens"] = "raw"
    """raw: `wikitext-2-raw-v1.zip` or the three files in it, with every word as it was; tokens:
    `train.txt`, `valid.txt` and `test.txt`, in which rare words are replaced by `<unk>`."""
    train_part: Literal["train", "valid"] = "train"
    """Part to train on; the validation part has a tenth of the size, enough for a trial."""
    tokens: Annotated[WordSettings | ByteSettings, Field(discriminator="kind")] = WordSettings()
    """Form of a token."""
    context: Annotated[int, Ge(1), Le(100_000)] = 64
    """Tokens of a sample."""
    test_samples: Samples | None = None
    """Number of test samples, evenly spread over all articles; by default all."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the task."""
        train_text, test_text = _texts(self)
        train, test = articles(train_text), articles(test_text)
        encoded: Callable[[Sequence[str]], IntArray]
        if isinstance(self.tokens, WordSettings):
            vocabulary = _vocabulary(train, self.tokens.vocabulary_size)
            num_tokens, encoded = len(vocabulary), partial(_word_tokens, vocabulary=vocabulary)
        else:
            num_tokens, encoded = _NUM_BYTES, _byte_tokens
        blocks = [_blocks(encoded(article), self.context) for article in train]
        blocks = [block for block in blocks if len(block)]
        test_blocks = np.concatenate([_blocks(encoded(article), self.context) for article in test])
        if not blocks or not len(test_blocks):
            raise ScenarioError(
                f"task.dataset.context: no article has {self.context} tokens and a next one, to"
                " train and to test on; lower it"
            )
        check_memory("task.dataset.context", sum(map(len, blocks)), 2 * self.context)
        test_blocks = test_blocks[spread(len(test_blocks), self.test_samples)]
        return Dataset(
            name=self.kind,
            train_inputs=np.concatenate([block[:, :-1] for block in blocks]),
            train_labels=np.concatenate([block[:, 1:] for block in blocks]),
            test_inputs=np.ascontiguousarray(test_blocks[:, :-1]),
            test_labels=np.ascontiguousarray(test_blocks[:, 1:]),
            num_classes=num_tokens,
            owner=np.repeat(np.arange(len(blocks), dtype=np.int64), [len(part) for part in blocks]),
            vocabulary_size=num_tokens,
        )


def _texts(settings: WikiText2Settings) -> tuple[str, str]:
    """Return the text of the part to train on and of the test part."""
    is_raw = settings.form == "raw"
    parts = (settings.train_part, "test")
    names = [(_RAW if is_raw else _TOKENS)[part] for part in parts]
    known = settings.published[0 if is_raw else 1]
    files = find_files(known, named_folder(settings.folder), extras=names)
    if _ARCHIVE in files:
        contents = read_zip(files[_ARCHIVE], names, max_byte=_MAX_PART_BYTE)
    else:
        contents = {name: paths.read(files[name]) for name in names}
    texts = []
    for name, part in zip(names, parts, strict=True):
        try:
            texts.append(contents[name].decode("utf-8"))
        except UnicodeDecodeError as fault:
            message = f"wikitext2: the {part} part is no UTF-8 ({fault}); get it anew"
            raise DataError(message) from fault
    return texts[0], texts[1]


def articles(text: str) -> list[list[str]]:
    r"""Return the lines of each article, without their line ends.

    >>> articles(" \n = A = \n \n a b \n = = B = = \n c \n \n = D = \n \n d \n")
    [[' ', ' = A = ', ' ', ' a b ', ' = = B = = ', ' c ', ' '], [' = D = ', ' ', ' d ']]
    """
    lines = text.split("\n")
    if not lines[-1]:
        del lines[-1]
    begins = [
        number
        for number, line in enumerate(lines)
        if _TITLE.fullmatch(line) and _is_empty(lines, number - 1) and _is_empty(lines, number + 1)
    ]
    starts = [0, *begins[1:]]
    return [
        lines[start:stop] for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]


def _is_empty(lines: Sequence[str], number: int) -> bool:
    """Return whether a line is empty; lines before the first and after the last count as empty."""
    return not 0 <= number < len(lines) or not lines[number].strip()


def _vocabulary(texts: Sequence[Sequence[str]], size: int) -> dict[str, int]:
    """Return numbers of words: 0 for any other, 1 for the end of a line, then by frequency."""
    words = (
        word
        for lines in texts
        for line in lines
        for word in line.split()
        if word not in (_UNKNOWN, _END_OF_LINE)
    )
    known = [_UNKNOWN, _END_OF_LINE, *most_frequent(words, size - 2)]
    return {word: number for number, word in enumerate(known)}


def _word_tokens(lines: Sequence[str], vocabulary: Mapping[str, int]) -> IntArray:
    unknown = vocabulary[_UNKNOWN]
    numbers = [
        vocabulary.get(word, unknown) for line in lines for word in [*line.split(), _END_OF_LINE]
    ]
    return np.array(numbers, dtype=np.int64)


def _byte_tokens(lines: Sequence[str]) -> IntArray:
    text = "".join(line + "\n" for line in lines)
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.int64)


def _blocks(tokens: IntArray, context: int) -> IntArray:
    """Return samples with their last label [m, context + 1], side by side but for that label."""
    return windows(tokens, length=context + 1, stride=context)
