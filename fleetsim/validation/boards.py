"""Boards and instances: measured times on Jetsons, a Raspberry Pi and t2, energy, layers."""

from functools import cache
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import nnls

from fleetsim.contracts import FloatArray, ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices.compute import lay_out_computations, unloaded_s
from fleetsim.fleet.devices.profile import DeviceProfile, load_device
from fleetsim.report.figures import style
from fleetsim.units import FLOP_PER_GFLOP, MS_PER_S, PARAMETERS_PER_MPARAM, S_PER_MINUTE
from fleetsim.validation import measurements
from fleetsim.validation.measurements import PublishedNumber
from fleetsim.validation.tables import Check, Kind, Section, SummaryLine, filled, percent

RESNET18 = ModelCost({"conv": 1.1108e9}, 11_170_000, 44_700_000, num_layers=21)
"""ResNet-18 for 32 x 32 images: 0.5554 GMAC forward."""
REPRODUCTION = "reproduction/jetson-nano-fedgcs"
_SAMPLES, _EPOCHS, _BATCH = 500, 5, 32

_BLOCKS, _WIDTH, _TOKENS = 12, 768, 256
_BERT_BATCH = 4
_BLOCK_FLOP = 24.0 * _TOKENS * _WIDTH**2 + 4.0 * _TOKENS**2 * _WIDTH
"""A block's linear layers and its attention, forward."""
_BLOCK_LAYERS = 7
"""Four linear layers of its attention, the attention itself, and two behind it."""
_BLOCK_PARAMETERS, _BERT_PARAMETERS = 7_087_872, 110_000_000


class NanoRound(NamedTuple):
    """The round that FedGCS timed, on a device."""

    device: str
    profile: DeviceProfile
    seconds: float
    above_idle_j: float

    @property
    def joule(self) -> float:
        """Energy with idle power."""
        return self.above_idle_j + self.seconds * self.profile.power.idle_awake_w


def nano_round(device: str) -> NanoRound:
    """Return the round on a device."""
    profile = load_device(device)
    work = Work(WorkKind.TRAIN, epochs=_EPOCHS)
    work_s = unloaded_s(
        profile.compute, RESNET18, work, num_samples=np.array([_SAMPLES]), batching=Batching(_BATCH)
    )
    above_idle_w = np.array([profile.power.train_above_idle_w])
    timelines = lay_out_computations(
        np.zeros(1), work_s, above_idle_w, lambda rows, t_s: (0.0 * t_s, t_s + np.inf)
    )
    above_idle_j = float(timelines.energy_until(timelines.end_s)[0])
    return NanoRound(device, profile, float(timelines.end_s[0]), above_idle_j)


def bert_batch_s(device: str, depth: int = _BLOCKS) -> float:
    """Return seconds of a batch of BERT-base with the last `depth` blocks trained.

    Blocks below are computed forward only; depth 0 is a forward pass. Depth 12 also trains the
    embeddings.
    """
    compute = load_device(device).compute
    samples = np.array([_BERT_BATCH])

    def seconds(kind: WorkKind, num_blocks: int, num_parameters: int) -> float:
        cost = ModelCost(
            {"gemm": num_blocks * _BLOCK_FLOP},
            num_parameters,
            4 * num_parameters,
            num_layers=num_blocks * _BLOCK_LAYERS,
        )
        work = Work(kind, epochs=1) if kind is WorkKind.TRAIN else Work(kind)
        return float(
            unloaded_s(compute, cost, work, num_samples=samples, batching=Batching(_BERT_BATCH))[0]
        )

    if depth == 0:
        return seconds(WorkKind.EVALUATE, _BLOCKS, _BERT_PARAMETERS)
    if depth == _BLOCKS:
        return seconds(WorkKind.TRAIN, _BLOCKS, _BERT_PARAMETERS)
    # One batch, so its dispatch counts once.
    below_s = seconds(WorkKind.EVALUATE, _BLOCKS - depth, 0) - compute.dispatch_s
    return below_s + seconds(WorkKind.TRAIN, depth, depth * _BLOCK_PARAMETERS)


def section() -> Section:
    """Return the section on measured times of boards and instances."""
    known = measurements.numbers()
    small_s = nano_round("t2.small").seconds
    over_small = {
        name: nano_round(name).seconds / small_s for name in ("t2.medium", "t2.large", "t2.xlarge")
    }
    xlarge = known["t2_xlarge_over_small"]
    measured_s = measurements.table("bert-tx2")["batch_s"].to_numpy()
    tx2 = PublishedNumber(1.0, "ratio", measurements.FEDADAPTER)

    def bert(what: str, device: str, over_tx2: PublishedNumber, kind: Kind) -> Check:
        batch = PublishedNumber(float(measured_s[_BLOCKS]) * over_tx2.value, "s", over_tx2.source)
        return batch.check(f"{what}, BERT-base, batch of 4", kind, bert_batch_s(device))

    fits = [
        xlarge.check("t2.xlarge over t2.small, same round", "fit", over_small["t2.xlarge"]),
        bert("Jetson TX2 (GPU)", "jetson-tx2", tx2, "fit"),
        bert("Jetson Nano (GPU)", "jetson-nano-gpu", known["nano_gpu_over_tx2"], "fit"),
    ]
    others = [
        bert("Raspberry Pi 4", "raspberry-pi-4", known["pi4_over_tx2"], "prediction"),
        known["nano_resnet18_min"].check(
            "Jetson Nano (CPU), ResNet-18, 500 samples, 5 epochs",
            "prediction",
            nano_round("jetson-nano-cpu").seconds / S_PER_MINUTE,
        ),
    ]
    model_s = [bert_batch_s("jetson-tx2", depth) for depth in range(_BLOCKS + 1)]
    partial = []
    for depth, (there_s, here_s) in enumerate(zip(measured_s[:-1], model_s[:-1], strict=True)):
        what = f"last {depth} of 12 blocks trained" if depth else "forward only"
        partial.append(Check(what, "prediction", float(there_s), here_s, "s", "as above"))
    return Section(
        "Boards and instances: time",
        filled(
            "boards",
            fits=fits,
            others=others,
            over_small=over_small,
            xlarge=xlarge,
            partial=partial,
        ),
        (
            SummaryLine.of("Boards and t2: time", fits),
            SummaryLine.of("Raspberry Pi 4 and Nano's CPU, older sources", others),
            SummaryLine.of("TX2, forward-only and partial back-propagation", partial),
        ),
        {"bert-depth": _bert_figure(measured_s, np.array(model_s))},
    )


def energy_section() -> Section:
    """Return the section on the energy that FedGCS reports, which is not the board's."""
    known = measurements.numbers()
    reported, minutes = known["nano_resnet18_j"], known["nano_resnet18_min"]
    cpu, gpu, copy = map(nano_round, ("jetson-nano-cpu", "jetson-nano-gpu", REPRODUCTION))
    errors = [
        joule / reported.value - 1.0
        for board in (cpu, gpu)
        for joule in (board.above_idle_j, board.joule)
    ]
    pi = load_device("raspberry-pi-4").compute
    assert pi.peak_flop_per_s is not None
    text = filled(
        "fedgcs",
        reported=reported,
        minutes=minutes,
        seconds=minutes.value * S_PER_MINUTE,
        stress=known["nano_stress_w"],
        cpu=cpu,
        copy=copy,
        rounds=((cpu, "prediction", 3), (gpu, "prediction", 3), (copy, "fit", 4)),
        pi_share_of_peak=pi.conv_flop_per_s / pi.peak_flop_per_s,
    )
    message = (
        f"not met: {percent(min(errors))} to {percent(max(errors))}; the figure is not the board's"
    )
    verdict = SummaryLine("Nano: energy against FedGCS", "prediction", len(errors), message)
    return Section("The energy figure of FedGCS", text, (verdict,))


@style.house_style()
def _bert_figure(measured_s: FloatArray, model_s: FloatArray) -> Figure:
    figure = style.new_figure(7.0, 3.8)
    axes = figure.subplots()
    depth = np.arange(measured_s.size)
    axes.plot(depth, measured_s, "o", color=style.BLACK, label="measured (FedAdapter)")
    axes.plot(depth[:-1], model_s[:-1], color=style.BLUE, label="model, prediction")
    axes.plot(
        depth[-1:], model_s[-1:], "s", color=style.VERMILLION, markersize=10,
        markerfacecolor="none", label="model, fit",
    )  # fmt: skip
    axes.set(xlabel="blocks of BERT-base that are trained", ylabel="seconds of a batch of 4")
    axes.set_xticks(depth)
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="lower right")
    return figure


_MEASURED_BOARDS = {"jetson-nano": "jetson-nano-gpu", "jetson-agx-xavier": "jetson-xavier-nx"}
"""Measured boards, with the device that has their `layer_s`."""


class LayerFit(NamedTuple):
    """Networks on one board, in the order of the table, and the figures fitted to them."""

    network: list[str]
    terms: FloatArray
    """Layers, FLOP of a forward pass and parameters of each [n, 3]."""
    measured_s: FloatArray
    """Measured latency of each [n]."""
    layer_s: float
    """k: seconds of a layer in a forward pass."""
    model_s: FloatArray
    """Latencies of the fit [n]."""


@cache
def layer_fit(board: str) -> LayerFit:
    """Fit the overhead of a layer on a Jetson's GPU to the latencies of PyTorch on a board.

    A forward pass of one image takes

        k * L + q * P + F / R

    for a network of L layers that multiply matrices, P parameters and F FLOP: k is the overhead of
    a layer, q the reading of the parameters, R a rate. Least squares of relative errors, with no
    figure below 0. A trained batch launches each layer three times (forward, and the gradients of
    inputs and of weights), so `layer_s` of the boards is 3 k. The networks ran in half precision,
    so R is no rate of training; k is work of the CPU and does not depend on it.
    """
    times = measurements.table("jetson-inference").query("board == @board")
    measured_s = (times["latency_ms"] / MS_PER_S).to_numpy()
    forward_flop = 2.0 * times["gmac"] * FLOP_PER_GFLOP
    terms = np.column_stack(
        [times["layers"], forward_flop, times["mparam"] * PARAMETERS_PER_MPARAM]
    )
    # Scaled to columns of about 1, so that the solver's tolerance means the same for each.
    scale = terms.max(axis=0)
    scaled, _ = nnls(terms / scale / measured_s[:, np.newaxis], np.ones(measured_s.size))
    coefficients = scaled / scale
    return LayerFit(
        times["network"].tolist(), terms, measured_s, float(coefficients[0]), terms @ coefficients
    )


def layer_section() -> Section:
    """Return the section: the fits, and the figures in the boards' files."""
    boards, every = [], []
    for board, device in _MEASURED_BOARDS.items():
        fitted = layer_fit(board)
        checks = [
            Check(f"{board}, {network}", "fit", measured, model, "s", measurements.TORCH2TRT)
            for network, measured, model in zip(
                fitted.network, fitted.measured_s, fitted.model_s, strict=True
            )
        ]
        boards.append((board, device, load_device(device).compute.layer_s, fitted, checks))
        every += checks
    return Section(
        "Boards: overhead of a layer",
        filled("layers", source=measurements.TORCH2TRT, boards=boards),
        (SummaryLine.of("Jetson GPUs, latency by layers", every),),
    )
