"""Cost of a task's model on a device: of a network, or of one that exists on paper only."""

from dataclasses import replace

from torch import nn

from fleetsim.contracts import ClientTraining, ModelCost, SampleForm
from fleetsim.learning.local.step_memory import num_weight_copies, step_memory
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.paper_cost import CostSettings
from fleetsim.learning.models.user_model_kind import UserModelKind
from fleetsim.training.prepared_task import TaskRequest


def network_cost(
    module: nn.Module, request: TaskRequest, form: SampleForm, algorithm: ClientTraining | None
) -> ModelCost:
    """Return the cost of a network, with the memory of a step if that is measured."""
    model = request.task.model
    if isinstance(model, UserModelKind):
        cost = model.counted_cost(module, form)
    else:
        cost = model_cost(module, form.input_shape)
    if request.measures_memory:
        memory = step_memory(
            module,
            form.input_shape,
            request.task.local,
            num_more_copies=_num_copies(algorithm),
            takes_tokens=form.vocabulary_size is not None,
            label_shape=form.input_shape[:1] if form.is_sequence else (),
        )
        cost = replace(cost, memory=memory)
    return replace(cost, train_factor=_train_factor(algorithm))


def paper_cost(
    model: CostSettings, request: TaskRequest, algorithm: ClientTraining | None
) -> ModelCost:
    """Return the cost of a model that exists on paper only."""
    copies = None
    if request.measures_memory:
        copies = num_weight_copies(request.task.local, num_more=_num_copies(algorithm))
    return replace(model.cost(num_copies=copies), train_factor=_train_factor(algorithm))


def _train_factor(algorithm: ClientTraining | None) -> float:
    """Return the work of a step divided by that of a plain one."""
    return float(getattr(algorithm, "train_factor", 1.0))


def _num_copies(algorithm: ClientTraining | None) -> int:
    return int(getattr(algorithm, "num_copies", 0))
