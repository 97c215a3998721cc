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
from fleetsim.validation.tables import Check, Kind, Section, SummaryLine, number, percent, table

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


def nano_round(device: str) -> tuple[float, float, DeviceProfile]:
    """Return seconds and joules above idle of the round that FedGCS timed, on a device."""
    profile = load_device(device)
    work = Work(WorkKind.TRAIN, epochs=_EPOCHS)
    work_s = unloaded_s(
        profile.compute, RESNET18, work, num_samples=np.array([_SAMPLES]), batching=Batching(_BATCH)
    )
    above_idle_w = np.array([profile.power.train_above_idle_w])
    timelines = lay_out_computations(
        np.zeros(1), work_s, above_idle_w, lambda rows, t_s: (0.0 * t_s, t_s + np.inf)
    )
    return float(timelines.end_s[0]), float(timelines.energy_until(timelines.end_s)[0]), profile


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
    nano_s, _, _ = nano_round("jetson-nano-cpu")
    minutes = known["nano_resnet18_min"]
    small_s = nano_round("t2.small")[0]
    xlarge = known["t2_xlarge_over_small"]
    measured_s = measurements.table("bert-tx2")["batch_s"].to_numpy()
    nano = "Jetson Nano (CPU), ResNet-18, 500 samples, 5 epochs"
    xlarge_over_small = nano_round("t2.xlarge")[0] / small_s
    tx2 = PublishedNumber(1.0, "ratio", measurements.FEDADAPTER)

    def bert(what: str, device: str, over_tx2: PublishedNumber, kind: Kind) -> Check:
        batch = PublishedNumber(float(measured_s[_BLOCKS]) * over_tx2.value, "s", over_tx2.source)
        return batch.check(f"{what}, BERT-base, batch of 4", kind, bert_batch_s(device))

    fits = [
        xlarge.check("t2.xlarge over t2.small, same round", "fit", xlarge_over_small),
        bert("Jetson TX2 (GPU)", "jetson-tx2", tx2, "fit"),
        bert("Jetson Nano (GPU)", "jetson-nano-gpu", known["nano_gpu_over_tx2"], "fit"),
    ]
    others = [
        bert("Raspberry Pi 4", "raspberry-pi-4", known["pi4_over_tx2"], "prediction"),
        minutes.check(nano, "prediction", nano_s / S_PER_MINUTE),
    ]
    model_s = [bert_batch_s("jetson-tx2", depth) for depth in range(_BLOCKS)]
    partial = []
    for depth, (there_s, here_s) in enumerate(zip(measured_s, model_s, strict=False)):
        what = f"last {depth} of 12 blocks trained" if depth else "forward only"
        partial.append(Check(what, "prediction", float(there_s), here_s, "s", "as above"))
    text = f"""\
{Check.table([*fits, *others])}

The serial third of the t2 and the matrix-product rates of the TX2 and the Nano's GPU were chosen to
match these; they are no evidence. The rates of the Raspberry Pi 4 are those of its [training in
PyTorch](#boards-training-in-pytorch), and the Nano's CPU has them for the same peak. The two older
figures do not agree with these measurements: a factor of twenty that its authors rounded, and
a time whose joules are [no board's](#the-energy-figure-of-fedgcs). Between t2.small and t2.xlarge
there are no measurements: the model says {number(nano_round("t2.medium")[0] / small_s)} for
t2.medium and {number(nano_round("t2.large")[0] / small_s)} for t2.large. Time in proportion to the
number of vCPUs would be 0.250 for t2.xlarge, {percent(0.25 / xlarge.value - 1.0)}.

One point, the full batch of 1.7 s on the TX2, predicts the twelve others (BERT-base, batches of 4,
256 tokens; depth 12 trains the embeddings too, and is the point of the fit):

{Check.table(partial)}

![Seconds of a batch of BERT-base on a Jetson TX2 by trained blocks](validation/bert-depth.svg)
"""
    return Section(
        "Boards and instances: time",
        text,
        (
            SummaryLine.of("Boards and t2: time", fits),
            SummaryLine.of("Raspberry Pi 4 and Nano's CPU, older sources", others),
            SummaryLine.of("TX2, forward-only and partial back-propagation", partial),
        ),
        {"bert-depth": _bert_figure(measured_s, np.append(model_s, bert_batch_s("jetson-tx2")))},
    )


def energy_section() -> Section:
    """Return the section on the energy that FedGCS reports, which is not the board's."""
    known = measurements.numbers()
    reported, minutes, stress = (
        known[name] for name in ("nano_resnet18_j", "nano_resnet18_min", "nano_stress_w")
    )
    rows, errors = [], []
    for device, kind, digits in (
        ("jetson-nano-cpu", "prediction", 3),
        ("jetson-nano-gpu", "prediction", 3),
        (REPRODUCTION, "fit", 4),
    ):
        seconds, above_j, profile = nano_round(device)
        joules = (above_j, above_j + seconds * profile.power.idle_awake_w)
        if kind == "prediction":
            errors += [j / reported.value - 1.0 for j in joules]
        cells = (f"{number(j, digits)} J, x{number(j / reported.value)}" for j in joules)
        rows.append((f"`{device}`", kind, f"{number(seconds, 4)} s", *cells))
    cpu_s, cpu_j, cpu = nano_round("jetson-nano-cpu")
    mean_w = reported.value / (minutes.value * S_PER_MINUTE)
    pi = load_device("raspberry-pi-4").compute
    assert pi.peak_flop_per_s is not None
    share = pi.conv_flop_per_s / pi.peak_flop_per_s
    text = f"""\
FedGCS gives {reported.value} J for the round that takes {minutes.value} min. **Both cannot be the
board's**: {reported.value} J / {minutes.value * S_PER_MINUTE:.0f} s = {number(mean_w)} W, and a
Jetson Nano draws {cpu.power.idle_awake_w} W when idle. With seconds instead of
minutes it would be {number(reported.value / minutes.value)} W, above the {stress.value} W that the
board draws with CPU and GPU fully loaded. The time is that of a run on the CPU at a tenth of its
peak, where a Raspberry Pi 4 trains at {percent(share, signed=False)}; the energy is that of a
minute and a half on the GPU.

{table(("device", "kind", "time", f"above idle, over {reported.value} J", "with idle"), rows)}

So fleetsim's CPU takes {percent(cpu_s / minutes.value / S_PER_MINUTE, signed=False)} of the time
and {number(cpu_j / reported.value)} times the energy. Nothing about the Nano is validated by this
paper.

**Comparing with that paper's figures** needs them, so there is a device that has both: `fleet:
{{devices: {{{REPRODUCTION}: 1.0}}}}`. It is the Nano's CPU except for its rates, which give
{minutes.value} min, and its power: {number(profile.power.train_above_idle_w, 4)} W in training,
whatever its source really measured, and almost nothing when idle. It is labelled everywhere:
`fleetsim run` and `validate` warn of it, tables and reports call it `{profile.name}`, and
`fleetsim list devices` lists it apart from the devices. Mixing it with real ones makes their joules
incomparable.
"""
    return Section(
        "The energy figure of FedGCS",
        text,
        (
            SummaryLine(
                "Nano: energy against FedGCS",
                "prediction",
                len(errors),
                f"not met: {percent(min(errors))} to {percent(max(errors))}; the figure is not the"
                " board's",
            ),
        ),
    )


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


_TRAIN_PER_FORWARD = 3.0
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
    rows, checks = [], []
    for board, device in _MEASURED_BOARDS.items():
        fitted = layer_fit(board)
        errors = [
            Check(f"{board}, {network}", "fit", measured, model, "s", measurements.TORCH2TRT)
            for network, measured, model in zip(
                fitted.network, fitted.measured_s, fitted.model_s, strict=True
            )
        ]
        worst = max(errors, key=lambda check: abs(check.error))
        checks += errors
        fitted_s = _TRAIN_PER_FORWARD * fitted.layer_s
        shipped_s = load_device(device).compute.layer_s
        rows.append(
            (
                *(board, str(len(errors))),
                *(f"{number(s * MS_PER_S)} ms" for s in (fitted.layer_s, fitted_s)),
                f"`{device}`: {number(shipped_s * MS_PER_S)} ms",
                percent(float(np.mean(np.abs([check.error for check in errors]))), signed=False),
                f"{percent(worst.error)} ({worst.what.split(', ')[1]})",
            )
        )
    head = ("board", "networks", "k, forward", "3 k", "shipped", "mean error", "worst")
    text = f"""\
Cost of a layer on a Jetson's GPU, besides its arithmetic: single images through torchvision's
networks in PyTorch ({measurements.TORCH2TRT}). On the Xavier the time of ResNets is proportional to
their layers, and four MNASNets of 0.10 to 0.53 GMAC take the same 15 ms: they wait for the CPU that
launches kernels.

{table(head, rows)}

The Jetson TX2 has the Nano's figure scaled by the clocks of their CPU cores, the Orin Nano the
Xavier's. No training of a small network on these boards was found to compare with.
"""
    return Section(
        "Boards: overhead of a layer",
        text,
        (SummaryLine.of("Jetson GPUs, latency by layers", checks),),
    )
