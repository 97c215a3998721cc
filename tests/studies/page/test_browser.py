"""The page in a real browser: what a reader sees, clicks and types."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from fleetsim.studies.page import study_page
from fleetsim.studies.page.arm_styles import DARK_PAPER, LIGHT_PAPER
from tests.studies.page.made_tables import CONDITIONS, made_header, made_tables

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow

PATIENCE_MS = 120_000
"""Time to wait for what must happen; a busy machine is slow."""
HIDDEN_ARMS = """name => document.querySelector(`[data-chart="${name}"] .plot`).data
    .filter(trace => trace.showlegend && trace.meta.arm !== undefined && trace.visible !== true)
    .map(trace => trace.meta.arm)"""
LEGENDS_BELOW_AXES = """() => [...document.querySelectorAll('.plot')].every(plot =>
    plot.querySelector('.legend').getBoundingClientRect().top
    >= plot.querySelector('.g-xtitle').getBoundingClientRect().bottom)"""
WIDER = """() => [...document.querySelectorAll('body *')]
    .filter(part => part.getBoundingClientRect().right > innerWidth + 1 && !part.closest('.scroll'))
    .map(part => part.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def address(tables, header, tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("study")
    return study_page.write_page(tables, header, folder).as_uri()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Page of fourteen arms."""
    arms = tuple(f"selector number {number}" for number in range(14))
    header = made_header(arms=arms, varied=False)
    folder: Path = tmp_path_factory.mktemp("crowded")
    return study_page.write_page(made_tables(header), header, folder).as_uri()


@pytest.fixture
def complaints() -> list[str]:
    """Messages of the console, errors, dialogs and requests."""
    return []


@pytest.fixture
def open_page(browser, address, complaints):
    """Open the page; at the end nothing may have been complained of or asked for."""
    contexts = []

    def opened(at: str = address, **settings: Any) -> Page:
        context = browser.new_context(**settings)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page: Page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on(
            "request", lambda request: complaints.append(request.url) if request.url != at else None
        )
        page.goto(at)
        if settings.get("java_script_enabled", True):
            page.wait_for_selector("html[data-drawn]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def plot(page: Page, chart: str) -> str:
    page.locator(f'[data-chart="{chart}"]').scroll_into_view_if_needed()
    return f'[data-chart="{chart}"] .plot'


def has_paper(page: Page, color: str) -> None:
    """Wait until all charts have a background."""
    page.wait_for_function(
        """color => [...document.querySelectorAll('.plot')]
            .every(plot => plot.layout.paper_bgcolor === color
                && plot.querySelector('.main-svg').style.background !== '')""",
        arg=color,
    )


def hears(page: Page, opening: str) -> None:
    """Wait for words to those who hear a chart, which come once its label is drawn."""
    page.wait_for_function(
        "words => document.getElementById('spoken').textContent.startsWith(words)", arg=opening
    )


def hides(page: Page, arms: list[int]) -> None:
    """Wait until all charts of arms hide these ones."""
    for chart in ("accuracy", "plane", "effect"):
        page.wait_for_function(
            f"([chart, arms]) => String(({HIDDEN_ARMS})(chart)) === String(arms)", arg=[chart, arms]
        )


def first_column(page: Page, table: str, column: int) -> list[str]:
    cells: list[str] = page.locator(f'table[data-name="{table}"] tbody tr').evaluate_all(
        "(rows, column) => rows.filter(row => !row.hidden).map(row => row.cells[column].innerText)",
        column,
    )
    return cells


def test_hover_shows_a_value(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    box = page.locator(plot(page, "accuracy")).bounding_box()
    label = page.locator('[data-chart="accuracy"] .hovertext')
    for part in range(4, 15):  # until the pointer meets a line
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * part / 20)
        page.wait_for_timeout(300)
        if label.count():
            break

    # Accuracy and its interval, then where on the axis, and the seeds.
    text = label.first.text_content()
    assert "%" in text
    assert "kJ" in text
    assert "seeds" in text


def test_a_click_in_a_legend_hides_an_arm_in_all_charts_and_a_double_click_isolates_it(open_page):
    page = open_page(viewport={"width": 1280, "height": 900})
    oort = page.locator(plot(page, "accuracy")).locator(".legendtoggle").nth(1)
    oort.click()
    hides(page, [1])

    assert not page.locator('input[data-arm="1"]').is_checked()

    page.locator('input[data-arm="1"]').check()
    # A busy browser takes two clicks of a mouse for single ones, so plotly's own event is sent.
    page.evaluate(
        """() => {
            const plot = document.querySelector('[data-chart="accuracy"] .plot');
            const curveNumber = plot.data.findIndex(trace => trace.meta.arm === 1);
            plot.emit('plotly_legenddoubleclick', {data: plot.data, curveNumber});
        }"""
    )
    hides(page, [0, 2, 3])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_overflows_legends_are_below_axes_and_tables_show_that_they_go_on(
    open_page, crowded: str, width: int, scheme: str
):
    page = open_page(crowded, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.wait_for_function(LEGENDS_BELOW_AXES)
    paper = {"light": LIGHT_PAPER, "dark": DARK_PAPER}[scheme]
    has_paper(page, paper)
    table = page.locator('.scroll:has([data-name="summaries"])')
    table.evaluate("table => { table.scrollTop = 200; table.scrollLeft = 0; }")
    edge = edge_of(table)
    table.evaluate("table => { table.scrollLeft = table.scrollWidth; }")

    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(WIDER) == []
    # Only a narrow page hides columns.
    assert (edge == paper, edge_of(table)) == (width == 1280, paper)


def edge_of(table: Locator) -> str:
    """Return the most frequent colour of pixels near the right edge of a table."""
    picture = Image.open(BytesIO(table.screenshot())).convert("RGB")
    strip = np.asarray(picture)[picture.height // 3 : -picture.height // 3, -4].tolist()
    return "#" + bytes(max(strip, key=strip.count)).hex()


def test_a_printed_page_is_light_fits_its_paper_and_has_all_verdicts(open_page):
    # A4 without margins of 14 mm: 182 mm at 96 dots per inch.
    page = open_page(viewport={"width": 688, "height": 1000}, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    has_paper(page, LIGHT_PAPER)
    cut = """() => [...document.querySelectorAll('.scroll, .plot')]
        .filter(part => part.scrollWidth > part.clientWidth + 1).length"""

    assert page.evaluate("document.documentElement.scrollWidth") == 688
    assert page.evaluate(cut) == 0
    assert page.locator(".verdicts li").last.is_visible()
    assert not page.locator(".controls").first.is_visible()

    page.evaluate("dispatchEvent(new Event('afterprint'))")
    has_paper(page, DARK_PAPER)


def test_a_table_is_sorted_by_the_keyboard(open_page):
    page = open_page()
    head = page.locator('table[data-name="runs"] th[data-column="energy"]')
    number = head.evaluate("head => head.cellIndex")
    values = """rows => rows.map(row => Number(row.cells[NUMBER].dataset.value))""".replace(
        "NUMBER", str(number)
    )
    before = page.locator('table[data-name="runs"] tbody tr').evaluate_all(values)
    page.locator('table[data-name="runs"] th[data-column="virtual time"] button').focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    rows = page.locator('table[data-name="runs"] tbody tr')
    assert rows.evaluate_all(values) == sorted(before)
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert rows.evaluate_all(values) == sorted(before, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert rows.evaluate_all(values) == before != sorted(before)


def test_the_keyboard_reads_and_zooms_a_chart(open_page):
    page = open_page()
    chart = page.locator(plot(page, "accuracy"))
    chart.focus()
    page.keyboard.press("ArrowRight")
    hears(page, "random")
    page.keyboard.press("ArrowDown")
    hears(page, "oort")
    wide = page.evaluate("document.querySelector('.plot')._fullLayout.xaxis.range")
    page.keyboard.press("+")
    near = page.evaluate("document.querySelector('.plot')._fullLayout.xaxis.range")
    page.keyboard.press("0")

    assert near[1] - near[0] == pytest.approx(0.6 * (wide[1] - wide[0]))
    assert page.evaluate("document.querySelector('.plot')._fullLayout.xaxis.range") == wide


def test_choices_change_charts_their_descriptions_and_tables(open_page):
    page = open_page()
    seeds = """document.querySelector('.plot').data
        .filter(trace => trace.meta.role === 'seed' && trace.visible).length"""
    none = page.evaluate(seeds)
    page.check("[data-seeds]")
    page.check('[data-chart="accuracy"] [data-log="xaxis"]')
    page.select_option('select[data-table="runs"][data-filter="status"]', "failed")

    assert (none, page.evaluate(seeds)) == (0, 20)
    assert page.evaluate("document.querySelector('.plot')._fullLayout.xaxis.type") == "log"
    assert first_column(page, "runs", 0) == ["oort"]

    chart = page.locator(plot(page, "accuracy"))
    page.select_option('[data-chart="plane"] select[data-choice="condition"]', CONDITIONS[1])
    page.select_option('[data-chart="accuracy"] select[data-choice="against"]', "time")
    label = chart.get_attribute("aria-label")

    assert f"Accuracy over virtual time, {CONDITIONS[1]}" in label
    assert "of random's seconds to 80 %" in label
    assert page.evaluate("document.querySelector('.plot').layout.xaxis.title.text").startswith(
        "virtual time"
    )


def test_without_scripts_the_verdicts_can_be_read(open_page):
    page = open_page(java_script_enabled=False)

    assert page.locator(".verdicts li").first.is_visible()
    assert page.locator("noscript").is_visible()
    assert not page.locator(".controls").first.is_visible()
