"""Who takes part: one module a selector, named after its idea.

Adding one is a new file with a settings class (a `kind` of its own, and `build`) and its name in
the union below; the contract test and `fleetsim list selectors` find it there. What a selector
must do stands in `fleetsim.contracts.Selector`.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from fleetsim.contracts import Selector
from fleetsim.selectors.afl import AflSettings
from fleetsim.selectors.baselines.fixed import FixedSettings
from fleetsim.selectors.baselines.round_robin import RoundRobinSettings
from fleetsim.selectors.baselines.uniform import RandomSettings
from fleetsim.selectors.bp_ucb import BpUcbSettings
from fleetsim.selectors.divfl import DivFlSettings
from fleetsim.selectors.fedcor import FedCorSettings
from fleetsim.selectors.fedcs import FedCSSettings
from fleetsim.selectors.fedgra import FedGRASettings
from fleetsim.selectors.gpfl import GPFLSettings
from fleetsim.selectors.oort import OortSettings
from fleetsim.selectors.power_of_choice import PowerOfChoiceSettings
from fleetsim.selectors.pyramidfl import PyramidFlSettings
from fleetsim.selectors.quick_init_ucb import QuickInitUcbSettings
from fleetsim.selectors.rbcs_f import RBCSFSettings
from fleetsim.selectors.survey import SurveySettings
from fleetsim.selectors.tifl import TiFLSettings
from fleetsim.selectors.ucb import UcbSettings

__all__ = ["KINDS", "SelectorSettings", "build_selector"]

SelectorSettings = Annotated[
    RandomSettings
    | RoundRobinSettings
    | FixedSettings
    | PowerOfChoiceSettings
    | OortSettings
    | AflSettings
    | DivFlSettings
    | FedCorSettings
    | PyramidFlSettings
    | UcbSettings
    | QuickInitUcbSettings
    | BpUcbSettings
    | FedGRASettings
    | GPFLSettings
    | SurveySettings
    | TiFLSettings
    | FedCSSettings
    | RBCSFSettings,
    Field(discriminator="kind"),
]
"""Settings of any selector, told apart by `kind`."""

KINDS: dict[str, str] = {
    str(settings.model_fields["kind"].default): str(settings.__doc__).splitlines()[0]
    for settings in get_args(get_args(SelectorSettings)[0])
}
"""Kinds of selectors, each with one line on what it chooses."""


def build_selector(settings: SelectorSettings) -> Selector:
    """New selector with these settings.

    >>> build_selector(RandomSettings()).needs_losses
    False
    """
    return settings.build()
