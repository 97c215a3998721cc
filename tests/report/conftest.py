"""Most tests of pages need their figures only as SVG; PDF takes longer than all the rest."""

from __future__ import annotations

import pytest

from fleetsim.report.figures import style


@pytest.fixture
def only_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are saved as SVG alone."""
    for suffix in ("png", "pdf"):
        monkeypatch.delitem(style.FORMATS, suffix)
