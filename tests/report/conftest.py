"""Most tests of pages need no picture of their figures, which takes longer than all the rest."""

import pytest

from fleetsim.report.figures import style


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but not encoded: their files hold an empty picture."""
    empty = dict.fromkeys(style.FORMATS, b"<svg/>")
    monkeypatch.setattr(style, "encode", lambda figure, suffixes=(), **_: empty)
