"""Selectors: policies that choose the cohort, one package per paper.

A new selector is a new package with a settings class (`kind`, `demands` and `build`), whose name
stands in the union below. The contract test and `fleetsim list selectors` find it there. The duties
of a selector are in `fleetsim.contracts.Selector`.

- `baselines`: random, round-robin and fixed selection.
- `power_of_choice`: the largest losses among random candidates.
- `oort`: useful and fast clients, with a share of new ones.
- `pyramidfl`: Oort's clients, with individual work and uploads.
- `afl`: sampling by valuations.
- `divfl`: clients whose gradients represent those of all.
- `fedcor`: clients whose losses correlate with those of all others.
- `ucb`: bandit over sets of clients.
- `quick_init_ucb`: the same with a cold start in groups.
- `bp_ucb`: bandit over clients that agree with their neighbours.
- `fedgra`: grey relational analysis of four metrics.
- `fedgcs`: sets that networks generate, after learning from earlier selections.
- `gpfl`: gradients along the global direction, with a confidence bound.
- `survey`: average loss, its confidence bound, or no repeats.
- `tifl`: tiers of clients of similar latency.
- `fedcs`: as many clients as fit into a round.
- `rbcs_f`: short exchange times, with fairness.
- `autofl`: Q-tables choose clients and clocks, for accuracy and energy.
- `fedmarl`: probed clients that agents let continue.
- `favor`: values of a deep Q-network, which sees the models of all clients.
- `bandits`: parts that bandits share.
- `probing`: requests to evaluate a model, and their answers as columns.
- `training_loss`: losses that clients report from local training.
- `tie_breaking`: the largest scores, and the order of equal ones.
- `configured_selector`: selectors made from settings, and their defaults.
- `declared_state`: state for checkpoints, declared by name and type.
- `argument_checks`: checks of the arguments of equations.
- `known_numbers`: diagnostics without the numbers that a selector does not know.
- `learned_weights`: weight files of selectors that learn before a run.
- `requirements`: requirements of a selector on a run.
- `demands`: information that the server needs for a selector.
"""

from typing import Annotated, get_args

from pydantic import Field

from fleetsim.contracts import Selector
from fleetsim.selectors.afl.selector import AflSettings
from fleetsim.selectors.autofl.selector import AutoFLSettings
from fleetsim.selectors.baselines.fixed import FixedSettings
from fleetsim.selectors.baselines.round_robin import RoundRobinSettings
from fleetsim.selectors.baselines.uniform import RandomSettings
from fleetsim.selectors.bp_ucb.selector import BpUcbSettings
from fleetsim.selectors.demands import Demands
from fleetsim.selectors.divfl.selector import DivFlSettings
from fleetsim.selectors.favor.selector import FavorSettings
from fleetsim.selectors.fedcor.selector import FedCorSettings
from fleetsim.selectors.fedcs.selector import FedCSSettings
from fleetsim.selectors.fedgcs.selector import FedGCSSettings
from fleetsim.selectors.fedgra.selector import FedGRASettings
from fleetsim.selectors.fedmarl.selector import FedMarlSettings
from fleetsim.selectors.gpfl.selector import GPFLSettings
from fleetsim.selectors.oort.selector import OortSettings
from fleetsim.selectors.power_of_choice.selector import PowerOfChoiceSettings
from fleetsim.selectors.pyramidfl.selector import PyramidFlSettings
from fleetsim.selectors.quick_init_ucb.selector import QuickInitUcbSettings
from fleetsim.selectors.rbcs_f.selector import RBCSFSettings
from fleetsim.selectors.survey.selector import SurveySettings
from fleetsim.selectors.tifl.selector import TiFLSettings
from fleetsim.selectors.ucb.selector import UcbSettings

__all__ = ["DEMANDS", "KINDS", "SelectorSettings", "build_selector"]

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
    | FedGCSSettings
    | SurveySettings
    | TiFLSettings
    | FedCSSettings
    | RBCSFSettings
    | AutoFLSettings
    | FedMarlSettings
    | FavorSettings,
    Field(discriminator="kind"),
]
"""Settings of any selector, distinguished by `kind`."""

KINDS: dict[str, str] = {
    str(settings.model_fields["kind"].default): str(settings.__doc__).splitlines()[0]
    for settings in get_args(get_args(SelectorSettings)[0])
}
"""Kinds of selectors, each with one line on the clients that it chooses."""


DEMANDS: dict[str, Demands] = {
    str(settings.model_fields["kind"].default): settings.demands
    for settings in get_args(get_args(SelectorSettings)[0])
}
"""Demands of each kind, by the setting that changes them."""


def build_selector(settings: SelectorSettings) -> Selector:
    """Return a new selector with these settings.

    >>> build_selector(RandomSettings()).needs_losses
    False
    """
    return settings.build()
