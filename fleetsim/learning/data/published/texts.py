"""Texts whose next token is predicted: Shakespeare's plays by role, and WikiText-2 by article.

Shakespeare's text is that of the 37 plays in Jon Bosak's XML, with SPEECH, SPEAKER and LINE marked
up: in a plain text, speakers would have to be guessed from the layout. Roles, samples and sources
are described in docs/data.md. In a role's text every run of white space is one space; a speech
without a name is not used. The files are Jon Bosak's of 1998, from
http://www.ibiblio.org/xml/examples/shakespeare/, as kept in okfn/shakespeare-material@abd92b5; the
checksums are our own, of the files at this commit.

A line of WikiText-2 is split at white space, and every line, empty ones too, ends in a token of its
own. By this count the parts have the published 2,088,628, 217,646 and 245,569 tokens. An article
begins at a line " = Title = " between two empty lines; lines before the first title belong to the
first article. A sample's inputs are tokens c i .. c i + c - 1 of an article and its labels
c i + 1 .. c i + c, for context c and i = 0, 1, ... More is in docs/data.md. The archive's checksum
is that of ml-explore/mlx-data; those of the files in it, and of its form with `<unk>`, are stated
alike by several public projects.
"""

import hashlib
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from xml.etree import ElementTree

import numpy as np
from annotated_types import Ge, Le
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import SETS, DatasetKind, RemoteSet
from fleetsim.learning.data.formats.archives import read_zip
from fleetsim.learning.data.published.fetch import find_files, named_folder, search_folders
from fleetsim.learning.data.tokens import check_memory, most_frequent, spread, windows
from fleetsim.schema.ranges import Samples
from fleetsim.settings import Settings

ALPHABET = "\n !\"&'(),-." + string.digits + ":;>?" + string.ascii_uppercase + "[]"
ALPHABET += string.ascii_lowercase + "}"
"""The 80 characters of LEAF (TalwalkarLab/leaf@0a4689f, models/utils/language_utils.py) in their
order; any other becomes a space. The plays have a single other one, a dollar sign."""

_NAME = "shakespeare"
ARCHIVE = "shakespeare-moby-xml.zip"
_MAX_PLAY_BYTE = 2_000_000
_TEST_FRACTION = 0.2


def _dataset(
    name: str,
    train: Sequence[IntArray],
    test: IntArray,
    *,
    num_tokens: int,
    labels: int | slice = slice(1, None),
) -> Dataset:
    """Return the task of predicting some tokens of windows [m, c + 1] from the c before the last.

    There are windows of each client to train on, and others to test on.
    """
    return Dataset(
        name=name,
        train_inputs=np.concatenate([part[:, :-1] for part in train]),
        train_labels=np.concatenate([part[:, labels] for part in train]),
        test_inputs=np.ascontiguousarray(test[:, :-1]),
        test_labels=np.ascontiguousarray(test[:, labels]),
        num_classes=num_tokens,
        owner=np.repeat(np.arange(len(train), dtype=np.int64), [len(part) for part in train]),
        vocabulary_size=num_tokens,
    )


class ShakespeareSettings(DatasetKind):
    """Shakespeare's 37 plays by speaking role: 80 characters predict the next (LEAF's task)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["shakespeare"],)

    kind: Literal["shakespeare"] = "shakespeare"
    folder: str | None = None
    """Folder with the 37 XML files of the plays, or with a zip archive of them by the name
    `shakespeare-moby-xml.zip`; by default `$FLEETSIM_DATA` and then the cache that
    `fleetsim data fetch shakespeare` fills."""
    context: Annotated[int, Ge(1), Le(1000)] = 80
    """Characters of a sample."""
    stride: Annotated[int, Ge(1), Le(1000)] = 80
    """Characters from the start of one sample to that of the next. With 80 they lie side by side;
    with 1 every character is predicted, as in LEAF, and there are 80 times as many samples."""
    predict: Literal["last", "each"] = "last"
    """Labels: the character after the sample (LEAF), or the next one at each of its positions,
    which gives 80 times as many labels for the same arithmetic."""
    min_characters: Samples = 1000
    """Roles with a shorter text are left out, and those too short for one sample to train on."""
    test_samples: Samples | None = None
    """Number of test samples, evenly spread over all roles; by default all."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the task."""
        length = self.context + 1
        codes = np.full(0x110000, ALPHABET.index(" "), dtype=np.int64)
        codes[[ord(character) for character in ALPHABET]] = np.arange(len(ALPHABET))
        train: list[IntArray] = []
        test: list[IntArray] = []
        for lines in roles(_plays(self.published[0], named_folder(self.folder))).values():
            if sum(map(len, lines)) < self.min_characters:
                continue
            num_train = len(lines) - math.ceil(_TEST_FRACTION * len(lines))
            parts = [
                windows(_encoded(part, codes), length=length, stride=self.stride)
                for part in (lines[:num_train], lines[num_train:])
            ]
            if len(parts[0]):
                train.append(parts[0])
                test.append(parts[1])
        num_test = sum(map(len, test))
        if not num_test:
            raise ScenarioError(
                f"task.dataset.min_characters: no role has {self.min_characters} characters and"
                f" samples of {self.context} to train and test on; lower it or context"
            )
        num_labels = self.context if self.predict == "each" else 1
        num_samples = sum(map(len, train)) + num_test
        check_memory("task.dataset.stride", num_samples, self.context + num_labels)
        return _dataset(
            _NAME,
            train,
            np.concatenate(test)[spread(num_test, self.test_samples)],
            num_tokens=len(ALPHABET),
            labels=slice(1, None) if self.predict == "each" else -1,
        )


def roles(plays: Mapping[str, bytes]) -> dict[tuple[str, str], list[str]]:
    """Return the lines of each role by play and speaker, in the order of their first words."""
    lines_of: dict[tuple[str, str], list[str]] = {}
    for name, content in plays.items():
        try:
            # expat reads neither the DTD nor anything else outside of the file
            root = ElementTree.fromstring(content)
        except ElementTree.ParseError as error:
            raise DataError(f"{name}: no XML of a play ({error}); get it anew") from error
        for speech in root.iter("SPEECH"):
            speakers = dict.fromkeys(_words(part.text) for part in speech.iter("SPEAKER"))
            lines = [line for line in map(_spoken, speech.iter("LINE")) if line]
            for speaker in speakers:
                if speaker:
                    lines_of.setdefault((name, speaker), []).extend(line + "\n" for line in lines)
    return lines_of


def _spoken(line: ElementTree.Element) -> str:
    """Return the text of a line without the stage directions in it."""
    return _words((line.text or "") + "".join(part.tail or "" for part in line))


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _encoded(lines: list[str], codes: IntArray) -> IntArray:
    """Return the place in the alphabet of every character of some lines."""
    points = np.frombuffer("".join(lines).encode("utf-32-le"), dtype="<u4")
    encoded: IntArray = codes[points]
    return encoded


def _plays(known: RemoteSet, folder: Path | None) -> dict[str, bytes]:
    """Return the verified XML of all plays by the name of their file, in the set's order."""
    for home in search_folders(_NAME, folder):
        if paths.is_file(home / ARCHIVE):
            return _verified(home / ARCHIVE, known)
    files = find_files(known, folder)
    return {name: paths.read(path) for name, path in files.items()}


def _verified(archive: Path, known: RemoteSet) -> dict[str, bytes]:
    """Return the plays in an archive, each verified by its published checksum."""
    contents = read_zip(archive, [file.name for file in known.files], max_byte=_MAX_PLAY_BYTE)
    for file in known.files:
        actual = hashlib.sha256(contents[file.name]).hexdigest()
        if actual != file.sha256:
            raise DataError(
                f"{archive}: {file.name} is not the published file: expected SHA-256 {file.sha256},"
                f" found {actual}; remove the archive and run `fleetsim data fetch {_NAME}`"
            )
    return {file.name: contents[file.name] for file in known.files}


_WIKITEXT_ARCHIVE = "wikitext-2-raw-v1.zip"
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
        test_blocks = test_blocks[spread(len(test_blocks), self.test_samples)]
        return _dataset(self.kind, blocks, test_blocks, num_tokens=num_tokens)


def _texts(settings: WikiText2Settings) -> tuple[str, str]:
    """Return the text of the part to train on and of the test part."""
    is_raw = settings.form == "raw"
    parts = (settings.train_part, "test")
    names = [(_RAW if is_raw else _TOKENS)[part] for part in parts]
    known = settings.published[0 if is_raw else 1]
    files = find_files(known, named_folder(settings.folder), extras=names)
    if _WIKITEXT_ARCHIVE in files:
        contents = read_zip(files[_WIKITEXT_ARCHIVE], names, max_byte=_MAX_PART_BYTE)
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
