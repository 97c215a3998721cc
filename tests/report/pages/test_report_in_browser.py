"""Pages of a run and of a comparison in a real browser: narrow, light and dark."""

import io

import numpy as np
import pytest
from PIL import Image

from fleetsim.contracts import FloatArray
from fleetsim.report.pages import comparison, run_page
from tests.report.made_runs import MadeUp, make_run
from tests.studies.page.conftest import browser
from tests.studies.page.test_browser import WIDER

__all__ = ["browser"]
pytestmark = pytest.mark.slow

SPLIT = """() => [...document.querySelectorAll('th, dd')].flatMap(cell => {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), split = [];
    for (let text; (text = texts.nextNode()); )
        for (const found of text.data.matchAll(/[0-9][0-9.,]*(\\s%)?/g)) {
            const range = document.createRange();
            range.setStart(text, found.index);
            range.setEnd(text, found.index + found[0].length);
            if (range.getClientRects().length > 1) split.push(cell.textContent);
        }
    return split;
})"""

OVERFLOW = "box => box.scrollWidth - box.clientWidth"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    home = tmp_path_factory.mktemp("runs")
    runs = [
        make_run(home / f"{deadline_s}", MadeUp(deadline_s=deadline_s, cohort=7))
        for deadline_s in (123456.75, 30.0)
    ]
    compared = comparison.write(comparison.compare(runs), home / "compared")
    return [path.as_uri() for path in (run_page.write_report(runs[1]), compared)]


def luminance(png: bytes) -> FloatArray:
    """Return the relative luminance of each pixel, as in WCAG 2."""
    coded = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.float64) / 255.0
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_page_fits_and_says_where_it_scrolls(browser, addresses, scheme):
    for address in addresses:
        page = browser.new_page(
            viewport={"width": 400, "height": 800}, color_scheme=scheme, bypass_csp=True
        )
        page.goto(address)

        assert page.evaluate("document.documentElement.scrollWidth") == 400
        assert (page.evaluate(WIDER), page.evaluate(SPLIT)) == ([], [])

        for content in ("table", "img"):
            boxes = page.locator(f".scroll:has({content})").all()
            box = next(box for box in boxes if box.evaluate(OVERFLOW) > 50)
            shadows = []
            for left in (0, 9999):
                box.evaluate("(box, left) => { box.scrollLeft = left; }", left)
                shown = luminance(box.screenshot())[:, -28:]
                box.evaluate("box => { box.style.background = 'var(--paper)'; }")
                shadow = np.abs(shown - luminance(box.screenshot())[:, -28:]).max(axis=0)
                # A table of a fractional width leaves one column uncovered.
                shadows.append(np.sort(shadow)[-2])
                box.evaluate("box => { box.style.background = ''; }")
            assert shadows[0] > 0.1
            assert shadows[1] < 0.01  # a level of 256
        page.close()


@pytest.mark.parametrize(("scheme", "is_paper"), [("light", np.greater), ("dark", np.less)])
def test_figures_have_the_paper_of_the_scheme_and_ink_that_contrasts(
    browser, addresses, scheme, is_paper
):
    for address in addresses:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        page.goto(address)
        corner = luminance(page.screenshot(clip={"x": 2, "y": 2, "width": 4, "height": 4}))
        assert is_paper(corner, 0.9 if scheme == "light" else 0.02).all()
        for figure in page.locator("figure img").all():
            pixels = luminance(figure.screenshot())
            paper = float(np.median(pixels[0]))
            assert is_paper(paper, 0.9 if scheme == "light" else 0.02)
            # Type fills about half a percent of a figure, with a contrast above 7.
            light, dark = np.maximum(pixels, paper) + 0.05, np.minimum(pixels, paper) + 0.05
            assert np.mean(light / dark > 7.0) > 0.002
        page.close()
