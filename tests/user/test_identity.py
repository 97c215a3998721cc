"""Identity of plug-ins: file and version."""

import hashlib
import sys
from importlib import metadata
from pathlib import Path

import typing_extensions

from fleetsim.user import identity


class Local:
    pass


def test_the_source_is_the_whole_file_that_defines_it():
    expected = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()

    assert identity.source_sha256(Local) == expected
    assert identity.source_sha256(dict) is None  # written in C
    assert identity.name_of(Local.__init__.__class__).endswith(":wrapper_descriptor")


def test_the_version_is_that_of_the_nearest_module_then_of_the_distribution(monkeypatch):
    package, module = type(sys)("own_package"), type(sys)("own_package.part")
    monkeypatch.setitem(sys.modules, "own_package", package)
    monkeypatch.setitem(sys.modules, "own_package.part", module)
    cls = type("Part", (), {"__module__": "own_package.part"})

    assert identity.version(cls) is None
    vars(package)["__version__"] = "2.0"
    assert identity.version(cls) == "2.0"
    vars(module)["__version__"] = "2.1"
    assert identity.version(cls) == "2.1"
    assert not hasattr(typing_extensions, "__version__")
    of_distribution = identity.version(typing_extensions.deprecated)
    if typing_extensions.deprecated.__module__ == "typing_extensions":  # a part of Python 3.13
        assert of_distribution == metadata.version("typing_extensions")
