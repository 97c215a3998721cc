from __future__ import annotations

import pytest

from tests.engine.tiny import Tiny


@pytest.fixture
def tiny(tmp_path) -> Tiny:
    return Tiny(tmp_path)
