"""Study of made-up runs, and a browser that is started once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from fleetsim.studies.page.study_tables import StudyHeader, StudyTables
from tests.studies.page.made_tables import made_header, made_tables

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def header() -> StudyHeader:
    return made_header()


@pytest.fixture(scope="package")
def tables(header: StudyHeader) -> StudyTables:
    return made_tables(header)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium of the system; Playwright's own would be a download of its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if path is None:
        pytest.skip("no Chromium on the PATH: apt-get install -y chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path)
        yield browser
        browser.close()
