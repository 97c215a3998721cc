"""Messages on names that are not bundled."""

import typing

import pytest

from fleetsim import bundled

FAR = "0" * 12
"""A name that resembles no bundled one."""


@pytest.mark.parametrize("kind", typing.get_args(bundled.Kind))
def test_the_message_on_an_unknown_name_fits_on_a_screen(kind):
    """However many files are bundled; 700 characters are nine lines of a terminal."""
    message = bundled.not_found(kind, FAR)

    assert "bundled are " in message
    assert len(message) <= 700


def test_the_message_on_an_unknown_name_counts_the_names_of_subfolders():
    papers = [name for name in bundled.names("scenarios") if name.startswith("papers/")]

    message = bundled.not_found("scenarios", FAR)

    assert "quickstart, " in message
    assert message.endswith(f", {len(papers)} in papers/ (see fleetsim list)")
    assert "papers/fed" not in message
