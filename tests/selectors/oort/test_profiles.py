import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetsim.selectors.oort.profiles import PROFILES
from fleetsim.selectors.oort.selector import OortSettings

PAGE = Path(__file__).parents[3] / "docs" / "selectors.md"


def values(column: int) -> dict[str, str]:
    """A column of the table in docs/selectors.md that compares the published versions."""
    section = PAGE.read_text().split("| figure | here |", 1)[1]
    rows = re.findall(r"^\| (.+) \|$", section, re.M)
    cells = [row.split(" | ") for row in rows]
    return {row[0].split(":")[0]: row[column] for row in cells if len(row) == 5}


@pytest.mark.parametrize(("profile", "column"), [("oort_repo", 3), ("fedscale", 4)])
def test_profiles_have_the_values_of_the_table_in_the_docs(profile, column):
    table, settings = values(column), OortSettings(profile=profile)

    assert table["exploration"] == (
        f"{settings.exploration_fraction}, {settings.exploration_decay}, "
        f"{settings.exploration_min_fraction}"
    )
    assert float(table["clip"]) == settings.clip_fraction
    assert float(table["cut-off c"]) == settings.cut_off_fraction


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_sets_what_is_not_given_and_one_kind_of_preferred_duration(profile):
    expected = PROFILES[profile] | {"profile": profile, "clip_fraction": 0.5}
    settings = OortSettings(profile=profile, clip_fraction=0.5)

    assert {name: getattr(settings, name) for name in expected} == expected
    assert (settings.preferred_percentile is None) != (settings.preferred_duration_s is None)
    # Written out, they mean the same when they are read again.
    assert OortSettings.model_validate(settings.model_dump()) == settings


def test_a_profile_that_there_is_not_and_two_preferences_are_refused():
    with pytest.raises(ValidationError, match="oort_repo"):
        OortSettings(profile="oort")
    with pytest.raises(ValidationError, match="exclude each other; set one of them to null"):
        OortSettings(profile="fedscale", preferred_duration_s=3.0)
    changed = OortSettings(profile="fedscale", preferred_duration_s=3.0, preferred_percentile=None)
    assert changed.preferred_duration_s == 3.0
