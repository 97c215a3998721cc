"""Pages of validation: sections against sums by hand, and that the command writes them."""

import csv
import gzip
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fleetsim.fleet.devices.profile import load_device, load_radio
from fleetsim.validation import board_training, boards, channel, measurements, page, people, radio
from fleetsim.validation.tables import Section


def assert_minimum(squares: Callable[[np.ndarray], float], minimum: np.ndarray) -> None:
    """A hundredth more or less of any figure fits worse."""
    least = squares(minimum)
    for index, factor in itertools.product(range(minimum.size), (0.99, 1.01)):
        numbers = minimum.copy()
        numbers[index] *= factor
        assert squares(numbers) > least


@pytest.mark.parametrize("board", ["jetson-nano", "jetson-agx-xavier"])
def test_the_fit_of_a_boards_layers_is_a_minimum_and_the_files_carry_it(board):
    fit = boards.layer_fit(board)
    numbers = np.linalg.lstsq(fit.terms, fit.model_s, rcond=None)[0]

    def squares(numbers: np.ndarray) -> float:
        return float(((fit.terms @ numbers / fit.measured_s - 1.0) ** 2).sum())

    assert numbers[0] == pytest.approx(fit.layer_s, rel=1e-6)
    assert_minimum(squares, numbers[:3])
    device = {"jetson-nano": "jetson-nano-gpu", "jetson-agx-xavier": "jetson-xavier-nx"}[board]
    assert load_device(device).compute.layer_s == pytest.approx(3 * fit.layer_s, rel=0.01)


# GMAC of a forward pass and million parameters as torchvision's and timm's model tables have them.
@pytest.mark.parametrize(
    ("network", "gmac", "mparam"),
    [
        ("resnet18", 1.81, 11.7),
        ("resnet50", 4.09, 25.6),
        ("mobilenetv2_100", 0.30, 3.5),
        ("mobilenetv3_small_100", 0.06, 2.5),
        ("mobilenetv3_large_100", 0.22, 5.5),
        ("vit_tiny", 1.26, 5.7),
        ("vit_base", 17.56, 86.6),
        ("convnext_tiny", 4.46, 28.6),
        ("efficientnet_b0", 0.39, 5.3),
        ("mnasnet_100", 0.31, 4.4),
    ],
)
def test_the_networks_of_the_boards_have_their_published_sizes(network, gmac, mparam):
    for cost in board_training.costs(board_training.times().query("network == @network")):
        assert sum(cost.forward_flop.values()) / 2e9 == pytest.approx(gmac, abs=0.0075)
        assert cost.num_parameters / 1e6 == pytest.approx(mparam, abs=0.06)


def test_the_files_of_the_pis_carry_the_least_squares_of_the_logarithms():
    points, fitted = board_training.times(), np.array(board_training.fit())

    def squares(numbers: np.ndarray) -> float:
        model_s = board_training.model_s(points, board_training.as_fitted(*numbers.tolist()))
        return float((np.log(model_s / points["batch_s"]) ** 2).sum())

    assert_minimum(squares, fitted)
    pi4, pi5 = board_training.shipped().values()
    assert pi4.phi == pi5.phi
    assert fitted == pytest.approx(
        [pi4.conv_flop_per_s, pi5.conv_flop_per_s, pi4.phi["depthwise"], pi4.phi["gemm"]], rel=0.01
    )


NAMES = {"LTE": "lte", "NSALow": "nr-low", "mmwave": "nr-mmwave"}
WAYS = {"downlink": "down", "uplink": "up"}


@cache
def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def test_points_of_power_by_rate_are_means_and_radio_files_their_lines(real_trace):
    seconds = defaultdict(list)
    for row in rows_of(real_trace("radio-power-5g") / "transfer_power.csv.gz"):
        key = NAMES[row["network type"]], WAYS[row["direction"]], float(row["target bandwidth"])
        seconds[key].append((float(row["throughput"]), float(row["avg_power"]) / 1e3))
    table = measurements.table("radio-power")
    assert len(table) == len(seconds) == 99
    for name, way, target, rate, power_w, num in table.itertuples(index=False):
        mean_rate, mean_w = np.mean(seconds[name, way, target], axis=0)
        assert len(seconds[name, way, target]) == num
        assert rate == pytest.approx(mean_rate, abs=0.006)
        assert power_w == pytest.approx(mean_w, abs=6e-4)
    for line in radio.power_lines():
        of_line = [seconds[key] for key in seconds if key[:2] == (line.radio, line.direction)]
        rates, powers_w = np.array([np.mean(one, axis=0) for one in of_line]).T
        slope, intercept = np.polyfit(rates, powers_w, 1)
        profile, is_down = load_radio(line.radio), line.direction == "down"
        base_w = profile.receive_w if is_down else profile.transmit_w
        j_per_bit = profile.receive_j_per_bit if is_down else profile.transmit_j_per_bit
        assert base_w == pytest.approx(intercept - 2.35, abs=1e-3)
        assert j_per_bit * 1e6 == pytest.approx(slope, abs=1e-5)
        # A line through single seconds, whose rates scatter, is flatter.
        rates, powers_w = np.concatenate(of_line).T
        assert np.polyfit(rates, powers_w, 1)[0] < slope


def test_round_trips_are_medians_of_the_raw_latencies(real_trace):
    kinds = {"4G-LTE": "lte", "5G-NSA-Low-Band": "nr-low", "5G-NSA-mmWave": "nr-mmwave"}
    latency = defaultdict(list)
    for row in rows_of(real_trace("radio-power-5g") / "speedtest.csv.gz"):
        if row["type"] == "latency" and row["radio_type"] in kinds:
            latency[kinds[row["radio_type"]]].append(float(row["latency_ms"]))
    for row in rows_of(real_trace("net-5g-irish") / "samples.csv.gz"):
        if row["mode"] == "HSPA+" and row["ping_avg_ms"]:
            latency["3g"].append(float(row["ping_avg_ms"]))
    assert len(latency["3g"]) == 278
    for name, milliseconds in latency.items():
        assert load_radio(name).rtt_s == pytest.approx(np.median(milliseconds) / 1e3)


def test_less_than_one_sample_in_a_hundred_is_faster_than_its_radio(real_trace):
    home = real_trace("net-5g-irish")
    apps = {row["trace"]: row["app"] for row in rows_of(home / "traces.csv.gz")}
    rates = defaultdict(list)
    for row in rows_of(home / "samples.csv.gz"):
        if apps[row["trace"]] == "Download":
            rates[row["mode"]].append(float(row["dl_kbps"]) / 1e3)
    in_ireland = measurements.table("fastest-samples").query("campaign == 'ireland'")
    carried = {row.radio: row for row in measurements.rows(in_ireland)}
    for mode, name in (("LTE", "lte"), ("5G", "nr-low"), ("HSPA+", "3g")):
        most = load_radio(name).max_down_bit_per_s / 1e6
        assert np.mean(np.array(rates[mode]) > most) < 0.01
        assert carried[name].num == len(rates[mode])
        assert carried[name].p99_mbit_per_s == pytest.approx(
            np.percentile(rates[mode], 99), abs=0.06
        )


@pytest.mark.parametrize("law", channel.LAWS, ids=lambda law: law.title)
def test_the_densities_integrate_to_one_and_their_distribution_functions_agree(law):
    assert law.mean_of(lambda gain: 1.0) == pytest.approx(1.0, rel=1e-9)
    assert law.mean_of(lambda gain: (gain - 1.0) ** 2) == pytest.approx(law.variance, rel=1e-8)
    for gain in (0.1, 0.7, 2.5):
        by_integral = law.mean_of(lambda _: 1.0, until=gain)
        assert float(law.cdf(np.array([gain]))[0]) == pytest.approx(by_integral, rel=1e-6)


def split(text: str) -> dict[str, str]:
    """Parts of a page by their titles."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


DOCS = Path(__file__).resolve().parents[2] / "docs"
SECTIONS = {
    title: text
    for path in (DOCS / page.FOLDER).glob("*.md")
    for title, text in split(path.read_text(encoding="utf-8")).items()
}
"""Committed sections by their titles."""
NUMBER = re.compile(r"(?<![A-Za-z0-9@._/-])[+-]?\d+(?:\.\d+)?(?:e-\d+)?")
NEEDS_DATA = "published traces"
FAST = {"boards", "the energy of FedGCS", "boards in PyTorch", "credits and heat"}


def last_digit(text: str) -> float:
    mantissa, _, exponent = text.partition("e")
    _, _, decimals = mantissa.partition(".")
    return 10.0 ** (int(exponent or 0) - len(decimals))


def assert_same(made: str, committed: str) -> None:
    """The same words; numbers differ by their last digit at most, as on another host."""
    assert NUMBER.sub("#", made).split() == NUMBER.sub("#", committed).split()
    for one, other in zip(NUMBER.findall(made), NUMBER.findall(committed), strict=True):
        most = 1.01 * max(last_digit(one), last_digit(other))
        assert math.isclose(float(one), float(other), rel_tol=0.0, abs_tol=most), (one, other)


@cache
def section_of(name: str) -> Section:
    return page.SECTION_MAKERS[name]()


def summary(text: str) -> list[str]:
    """Rows of the table of verdicts."""
    return split(text)["Summary"].strip().splitlines()[2:]


def test_every_section_is_on_one_page_and_every_page_is_written():
    names = [name for one in page.PAGES.values() for name in one.sections]

    assert sorted(names) == sorted(page.SECTION_MAKERS)
    assert {path.stem for path in (DOCS / page.FOLDER).glob("*.md")} == page.PAGES.keys()
    assert len(SECTIONS) == len(names)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in page.SECTION_MAKERS
    ],
)
def test_a_section_and_its_summary_are_what_the_command_makes(name, request, monkeypatch):
    if name == NEEDS_DATA:
        real_trace = request.getfixturevalue("real_trace")
        home = {real_trace(trace).parents[1] for trace in people.PUBLISHED}
        monkeypatch.setenv("FLEETSIM_DATA", str(home.pop()))
    section = section_of(name)

    assert_same(section.text.strip(), SECTIONS[section.title].strip())
    lines = summary((DOCS / "validation.md").read_text(encoding="utf-8"))
    for line in summary(page.verdicts({name: section})):
        named = [other for other in lines if other.split("|")[1:3] == line.split("|")[1:3]]
        assert len(named) == 1
        assert_same(line, named[0])


def test_a_command_writes_the_page_and_the_committed_figure(tmp_path):
    sections = {"credits and heat": section_of("credits and heat")}
    written = page.write(sections, tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    with_section = tmp_path / "validation" / "memory-and-heat.md"

    assert names == {
        *("validation.md", "validation/memory-and-heat.md", "validation/t2-credits.svg")
    }
    assert written.read_text(encoding="utf-8") == page.verdicts(sections)
    assert with_section.read_text(encoding="utf-8") == page.render("memory-and-heat", sections)
    drawn, committed = (
        (folder / "validation" / "t2-credits.svg").read_text(encoding="utf-8")
        for folder in (tmp_path, DOCS)
    )
    version = re.compile(r"Matplotlib v\S+,")
    if version.findall(drawn) != version.findall(committed):
        pytest.skip("another version of matplotlib draws other bytes")
    assert drawn == committed


def test_without_its_data_the_section_says_how_to_get_it(monkeypatch):
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)
    section = people.published_section()

    assert section.verdicts[0].message == "not checked: no data"
    for name, where in people.PUBLISHED.items():
        assert f"`{name}` ({where})" in section.text
    assert "$FLEETSIM_DATA/traces/NAME" in section.text
