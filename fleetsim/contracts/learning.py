"""Jobs of training and evaluation, and Protocols of the parts of learning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts.reports import Evaluation, Report
from fleetsim.contracts.work import Arrays, IntArray, Parameters, State, Work


class Job(NamedTuple):
    """Arguments of a pure function: what one client computes from one model."""

    client: int
    work: Work
    base: Parameters
    """Model from which it starts [P]; shared between jobs, never changed."""
    address: tuple[int, ...]
    """Address of its random stream (order of batches, draw of samples), without the client."""
    learning_rate: float | None = None
    """Learning rate of training; None: that of the first round."""
    most_steps: int | None = None
    """`TRAIN` only: number of SGD steps after which it stops, >= 1; None: all epochs."""
    state: Arrays | None = None
    """Arrays that the client keeps for its own training; None with the built-in training."""
    received: Arrays | None = None
    """Arrays that the server sent beside the model, likewise."""


class JobResult(NamedTuple):
    """Result of a job; None where its kind of work does not yield a value."""

    num_samples: int
    loss: float | None = None
    loss_rms: float | None = None
    accuracy: float | None = None
    vector: Parameters | None = None
    epoch_losses: tuple[float, ...] | None = None
    """Mean loss of each epoch that was begun, if the work asks for it."""
    state: Arrays | None = None
    """Arrays that the client keeps until its next task, of own training; None: unchanged."""
    sent: Arrays | None = None
    """Arrays that the client uploads beside the model, likewise; None: nothing."""
    metrics: dict[str, float] | None = None
    """Numbers of the task, likewise; None: no number."""


class Trainer(Protocol):
    """Computation of jobs, at any moment between `submit` and `results`."""

    def submit(self, job: Job) -> int:
        """Accept a job and return its ticket; nothing needs to be computed yet."""

    def start(self, tickets: Sequence[int]) -> None:
        """Announce the tickets of the next `results`, in this order; computation may begin."""

    def results(self, tickets: Sequence[int]) -> list[JobResult]:
        """Return the results of several jobs, in the order of the tickets.

        A ticket is valid for one call. Many tickets at once are faster than single ones. Which
        tickets are asked for together must follow from the run alone: it may affect the rounding.
        """

    def cancel(self, ticket: int) -> None:
        """Forget a job whose result is not needed."""

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Return accuracy and loss of a model [P] on the server's test set."""

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """Return the same on the samples kept for selectors; None if none are kept."""


class Uplink(Protocol):
    """Way of models from clients to the server, possibly compressed."""

    def receive(
        self,
        client: int,
        base: Parameters,
        vector: Parameters,
        address: tuple[int, ...],
        fraction: float = 1.0,
    ) -> Parameters:
        """Return the model [P] that the server receives from an upload of this share."""

    def state(self) -> State:
        """Return everything that `restore` needs, such as residuals that clients keep."""

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""


class Accountant(Protocol):
    """Count of the privacy that a run has spent."""

    @property
    def epsilon(self) -> float:
        """Bound of differential privacy that holds for all aggregations so far."""

    def spend(self, num_selected: int, num_eligible: int) -> None:
        """Count an aggregation in which so many of the eligible clients were selected."""

    def state(self) -> State:
        """Return everything that `restore` needs."""

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""


class SecureSum(Protocol):
    """Protocol by which a server learns the sum of a cohort's updates alone, as a model of costs.

    A cohort is all clients that were selected for a round.
    """

    download_round_trips: int
    """Exchanges of messages before the training, beside that of the model."""
    upload_round_trips: int
    """Exchanges after it, beside that of the update."""

    def download_byte(self, cohort: int) -> int:
        """Return the bytes that each client of a cohort receives beside the model."""

    def upload_byte(self, cohort: int) -> int:
        """Return the bytes that each client of a cohort sends, its update included."""

    def is_unmasked(self, clients: Sequence[int], delivered: Sequence[int], round_: int) -> bool:
        """Return whether the sum of the delivered updates of a cohort can be read."""


Screen = Callable[[Sequence[Parameters], Sequence[Parameters]], Sequence[str | None]]
"""Screening of delivered models (second argument) against the models that were sent (first): the
reason for which each is refused, or None."""


class OwnAggregator(Protocol):
    """Aggregation of the user's own that keeps nothing between calls; any `Aggregator` is one, too.

    Its model may be of float32 or float64. `Aggregator` is the manual.
    """

    def aggregate(self, base: Parameters, reports: Sequence[Report], /) -> NDArray[Any]:
        """Return the next model, as `Aggregator.aggregate` does."""


class Aggregator(Protocol):
    """Aggregation of updates into the next global model. One object per run.

    `aggregate` is called once for every new version of the model, in the main process. It draws
    nothing, or from streams that its `state` continues; it changes neither `base` nor a report. An
    aggregator that keeps nothing between calls leaves out both `state` and `restore`; for any other
    they hold all that it keeps, so that a resumed run has the same results.

    Optional attribute:
        sees_single_updates: bool, False says that the next model follows from weighted sums over
            the updates alone, with weights by what a report says beside its model. The aggregator
            may then stand beside `server.privacy`, which shows it one noisy mean, and
            `server.secure_aggregation`. True unless given.
    """

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model, a new array of the shape of `base`.

        Args:
            base: current global model [P].
            reports: answers of this version, in the order of the selection (of arrival in a
                buffered server). Those that are delivered have a `vector`, the client's model [P].

        Raises:
            ValueError: no report, a vector that is not finite, or weights of different kinds.
            ScenarioError: weights of a selector that the aggregator does not use.
        """

    def state(self) -> State:
        """Return everything that `restore` needs, such as moments of a server optimizer."""

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""


class DatasetSource(Protocol):
    """Data of the user's own. Loaded once per run, in the main process.

    `load` may ask for `seed` and `num_clients` by these names, for data that are drawn; others
    follow from the class and its settings alone. It may draw from the global generators of Python,
    NumPy and torch, which are seeded before it and restored after it, but better makes its own.
    """

    def load(self) -> Any:
        """Return the data in any form that `fleetsim.dataset` takes, or what that returns.

        Such as a pair (train, test) of torch data sets, arrays (inputs, labels) or tables. Or a
        `fleetsim.learning.data.dataset.Dataset`. The same call returns the same data.
        """


class Partition(Protocol):
    """Assignment of the training samples to clients. Called once per run, in the main process.

    A class may set `splits_sequences = True`: samples are then also sequences, with labels [n, t].
    """

    def split(
        self, labels: IntArray, num_clients: int, generator: np.random.Generator
    ) -> Sequence[IntArray]:
        """Return the indices of every client's samples: one array for each client, in order.

        A client has at least one sample, and no sample belongs to two clients. Samples that no
        client has are not used.

        Args:
            labels: label of every sample [n]; not to be changed.
            num_clients: number of clients N, at most n.
            generator: source of all random draws, seeded by the scenario. The same arguments and
                draws give the same split.
        """


class Loss(Protocol):
    """Loss of the user's own, which clients minimise: a class with this method, or a function.

    It depends on its arguments alone: it keeps nothing from one call to the next, draws no random
    numbers, and has no weights that would have to be trained. It is computed with gradients in
    training, and without in evaluations, whose losses clients and server report. Its FLOP do not
    count, like those of the cross-entropy.

    A loss of a sample that depends on the other samples of its batch, such as a contrastive one, is
    trained one client at a time.
    """

    def losses(self, outputs: Any, labels: Any) -> Any:
        """Return the loss of each sample, a float tensor [n] that can be differentiated.

        Args:
            outputs: logits [n, classes], or [n, t, classes] for a label at every position. While
                the network is training, whatever it returns then.
            labels: labels int64 [n], or [n, t]; neither is to be changed.
        """


@dataclass(frozen=True, slots=True)
class SampleForm:
    """Form of the samples and labels that a network is built for."""

    input_shape: tuple[int, ...]
    """Shape of one sample: (channels, height, width), (features,), or (tokens,) for text."""
    num_classes: int
    """Number of logits."""
    vocabulary_size: int | None = None
    """Number of tokens of a text; None: samples are no text."""
    is_sequence: bool = False
    """True: one label at every position; False: one label for the sample."""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of samples that are images."""
        channels, height, width = self.input_shape
        return channels, height, width


class Model(Protocol):
    """Network of the user's own: any `torch.nn.Module`, from a class, a function or as an object.

    A class or function is called without arguments, with `samples` if it has a parameter of that
    name, and with its settings first if it has a class `Settings`. `samples` is a `SampleForm`. It
    draws the initial weights from torch's global generator as usual, which is at the address (seed,
    "model") meanwhile. Parameters are float32 and all get a gradient, or have `requires_grad =
    False`. Everything that training changes is a parameter or a float buffer.

    While `self.training`, it may draw random numbers from the global generators of torch, numpy and
    `random`, which are at the address of the job: stock dropout does. In evaluation it draws none.
    It never changes its input.

    FLOP are counted. A layer whose FLOP are not known has a method `own_flop(self, inputs) -> int`
    for its own products; or the network an attribute `flop_per_sample`, FLOP of a forward pass by
    class: conv, depthwise, gemm or rnn.

    `fleetsim.check_plugin` tries a network on samples of usual forms, or of the `SampleForm` in its
    attribute `sample_form`.
    """

    def forward(self, inputs: Any) -> Any:
        """Return logits float32 [n, classes], or [n, t, classes] for a label at every position.

        While it trains, it may return anything that the loss of the scenario takes, see `Loss`.

        Args:
            inputs: samples [n, *input_shape]: float32, or tokens int64 of texts.
        """
