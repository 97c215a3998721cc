"""Hashes of scenarios without defaults, which keys of later versions leave unchanged."""

from pydantic import Field

import fleetsim
from fleetsim.settings import DEFAULTS_VERSION, Settings
from tests.scenario import defaults


class Inner(Settings):
    kind: str = "inner"
    width: int = 3


class Other(Settings):
    kind: str = "other"
    width: int = 3


class Outer(Settings):
    name: str
    inner: Inner | Other = Inner()
    parts: tuple[Inner | Other, ...] = ()
    shares: dict[str, float] = Field(default_factory=dict)
    limit: float | None = None


def test_what_is_stated_is_what_differs_from_the_defaults_and_every_kind():
    changed = {"name": "a", "limit": 2.0, "shares": {"b": 0.5}}
    parts = Outer(name="a", inner=Other(), parts=(Inner(), Other()))

    assert Outer(name="a").stated() == {"name": "a"}
    assert Outer.model_validate(changed).stated() == changed
    assert parts.stated() == {
        "name": "a", "inner": {"kind": "other"}, "parts": [{"kind": "inner"}, {"kind": "other"}],
    }  # fmt: skip


def test_another_value_changes_the_hash_of_what_it_belongs_to_and_a_default_none():
    changes = ("server.selector.kind=oort", "task.model.kind=logistic",
        "fleet.channel.rate=shannon", "task.partition.alpha=0.4",
        "evaluate.validation_fraction=0.1", "fleet.channel.block_s=2")  # fmt: skip
    plain = fleetsim.load("quickstart")
    written = fleetsim.load("quickstart", ["task.local.proximal_mu=0.0", "fleet.seed=null"])
    others = [fleetsim.load("quickstart", change) for change in changes]

    assert written.definition_hash == plain.definition_hash
    assert len({one.definition_hash for one in (plain, *others)}) == 7
    # The first three leave the clients as they are, even the law of rates does.
    assert {one.clients_hash for one in (written, *others[:3])} == {plain.clients_hash}
    assert len({one.clients_hash for one in (plain, *others[3:])}) == 4


def test_every_default_is_on_record_and_a_changed_one_has_a_new_version():
    version, before = defaults.recorded()
    now = defaults.present()
    add = "run `python -m tests.scenario.defaults`"

    assert defaults.changed(before, now) == [], f"raise DEFAULTS_VERSION and {add}"
    assert version == DEFAULTS_VERSION, add
    assert now == before, add
