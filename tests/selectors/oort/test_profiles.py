from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetsim.selectors.oort import OortSettings
from fleetsim.selectors.oort.profiles import FEDSCALE, OORT_REPO, PLATO, PROFILES

PAGE = Path(__file__).parents[3] / "docs" / "selectors.md"


def figures(column: int) -> dict[str, str]:
    """A column of the table in docs/selectors.md that compares the published versions."""
    section = PAGE.read_text().split("| figure | here |", 1)[1]
    rows = re.findall(r"^\| (.+) \|$", section, re.M)
    cells = [row.split(" | ") for row in rows]
    return {row[0].split(":")[0]: row[column] for row in cells if len(row) == 5}


@pytest.mark.parametrize(("profile", "column"), [(OORT_REPO, 3), (FEDSCALE, 4)])
def test_profiles_have_the_figures_of_the_table_in_the_docs(profile, column):
    table = figures(column)

    assert table["exploration"] == (
        f"{profile.exploration_fraction}, {profile.exploration_decay}, "
        f"{profile.exploration_min_fraction}"
    )
    assert float(table["clip"]) == profile.clip_fraction
    assert float(table["cut-off c"]) == profile.cut_off_fraction


@pytest.mark.parametrize("profile", [OORT_REPO, FEDSCALE])
def test_the_authors_share_penalty_window_and_bar_with_the_paper(profile):
    paper = OortSettings()

    assert profile.penalty_exponent == paper.penalty_exponent
    assert profile.pacer_window_rounds == paper.pacer_window_rounds
    assert profile.max_blacklist_fraction == paper.max_blacklist_fraction


@pytest.mark.parametrize("profile", [OORT_REPO, FEDSCALE, PLATO])
def test_a_profile_knows_one_kind_of_preferred_duration(profile):
    assert (profile.preferred_percentile is None) != (profile.preferred_duration_s is None)
    assert profile.is_scaled == (profile.preferred_percentile is not None)


def test_plato_is_expressible_in_settings():
    settings = OortSettings(
        exploration_fraction=PLATO.exploration_fraction,
        exploration_decay=PLATO.exploration_decay,
        exploration_min_fraction=PLATO.exploration_min_fraction,
        exploration_weights=PLATO.exploration_weights,
        cut_off_fraction=PLATO.cut_off_fraction,
        clip_fraction=PLATO.clip_fraction,
        penalty_exponent=PLATO.penalty_exponent,
        preferred_duration_s=PLATO.preferred_duration_s,
        pacer_step_s=PLATO.pacer_step,
        pacer_window_rounds=PLATO.pacer_window_rounds,
        pacer_every=PLATO.pacer_every,
        max_selections=PLATO.max_selections,
        max_blacklist_fraction=PLATO.max_blacklist_fraction,
    )

    # Barred after more than 10 selections: the 11th is the first too many.
    assert settings.max_selections == 11


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_sets_what_is_not_given(name):
    profile = PROFILES[name]
    settings = OortSettings(profile=name, clip_fraction=0.5)

    assert settings.clip_fraction == 0.5
    assert settings.scale_utilities == profile.is_scaled
    assert settings.preferred_percentile == profile.preferred_percentile
    for figure in (
        *("exploration_fraction", "exploration_decay", "exploration_min_fraction"),
        *("exploration_weights", "cut_off_fraction", "preferred_duration_s", "pacer_every"),
        *("pacer_window_rounds", "penalty_exponent", "max_selections", "max_blacklist_fraction"),
    ):
        assert getattr(settings, figure) == getattr(profile, figure), figure


def test_the_steps_and_windows_of_the_profiles():
    repo, plato = OortSettings(profile="oort_repo"), OortSettings(profile="plato")

    assert (repo.pacer_step_percent, repo.pacer_step_s, repo.exploration_window) == (5.0, None, 5.0)
    assert (plato.pacer_step_s, plato.exploration_window) == (50.0, None)


def test_settings_written_out_mean_the_same_when_read_again():
    settings = OortSettings(profile="fedscale", clip_fraction=0.5, pacer_step_percent=1.0)

    assert OortSettings.model_validate(settings.model_dump()) == settings


def test_the_paper_is_the_default_and_changes_nothing():
    assert OortSettings() == OortSettings(profile="paper")
    assert OortSettings().scale_utilities is False
    assert OortSettings().preferred_percentile is None
    assert OortSettings().exploration_window is None


def test_a_profile_that_there_is_not_and_two_preferences_are_refused():
    with pytest.raises(ValidationError, match="oort_repo"):
        OortSettings(profile="oort")
    with pytest.raises(ValidationError, match="exclude each other; set one of them to null"):
        OortSettings(profile="fedscale", preferred_duration_s=3.0)
    changed = OortSettings(profile="fedscale", preferred_duration_s=3.0, preferred_percentile=None)
    assert changed.preferred_duration_s == 3.0
