"""Shakespeare's plays as a next-character task, with the roles of all plays as natural clients.

The text is that of the 37 plays in Jon Bosak's XML, with SPEECH, SPEAKER and LINE marked up: in a
plain text, speakers would have to be guessed from the layout. Roles, samples and sources are
described in docs/data.md.

In a role's text every run of white space is one space; a speech without a name is not used. The
files are Jon Bosak's of 1998, from http://www.ibiblio.org/xml/examples/shakespeare/, as kept in
okfn/shakespeare-material@abd92b5; the checksums are our own, of the files at this commit.
"""

import hashlib
import math
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from xml.etree import ElementTree

import numpy as np
from annotated_types import Ge, Le

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.archives import read_zip
from fleetsim.learning.data.published.fetch import find_files, named_folder, search_folders
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.tokens import check_memory, spread, windows
from fleetsim.schema.ranges import Samples

ALPHABET = "\n !\"&'(),-." + string.digits + ":;>?" + string.ascii_uppercase + "[]"
ALPHABET += string.ascii_lowercase + "}"
"""The 80 characters of LEAF (TalwalkarLab/leaf@0a4689f, models/utils/language_utils.py) in their
order; any other becomes a space. The plays have a single other one, a dollar sign."""

_NAME = "shakespeare"
ARCHIVE = "shakespeare-moby-xml.zip"
_MAX_PLAY_BYTE = 2_000_000
_TEST_FRACTION = 0.2


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
        is_sequence = self.predict == "each"
        answer = slice(1, None) if is_sequence else -1
        num_labels = self.context if is_sequence else 1
        num_samples = sum(map(len, train)) + num_test
        check_memory("task.dataset.stride", num_samples, self.context + num_labels)
        kept = spread(num_test, self.test_samples)
        return Dataset(
            name=_NAME,
            train_inputs=np.concatenate([part[:, :-1] for part in train]),
            train_labels=np.concatenate([part[:, answer] for part in train]),
            test_inputs=np.concatenate([part[:, :-1] for part in test])[kept],
            test_labels=np.concatenate([part[:, answer] for part in test])[kept],
            num_classes=len(ALPHABET),
            owner=np.repeat(np.arange(len(train), dtype=np.int64), [len(part) for part in train]),
            vocabulary_size=len(ALPHABET),
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
