"""Page of all sections, with the list of what is not validated.

The same code gives the same page and, under one version of matplotlib, the same bytes of figures.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fleetsim.record import atomic_files
from fleetsim.report.figures import style
from fleetsim.validation import (
    boards,
    channel,
    launches,
    link_rates,
    other_phones,
    peak_memory,
    people,
    phones,
    published,
    queueing,
    radio,
    slowdown,
    transport,
)
from fleetsim.validation.devices import board_training, lower_clock
from fleetsim.validation.tables import Section, table

FOLDER = "validation"
"""Folder of the figures, beside the page."""
_HEAD = """\
# Validation

Results of fleetsim's models beside measurements and theory. A command writes this page, from the
models as scenarios use them and the measurements in [measurements/](../measurements/README.md); do
not edit it. To write it again, on your own installation too (about half a minute):

```
fleetsim validate-world --out docs
```

| kind | what it means |
| --- | --- |
| fit | a figure of the model was chosen to match it: it is **no evidence** |
| prediction | nothing was adjusted to it |
| exact | a closed form that the code must equal, except for rounding |
| theory | a random quantity against its law, inside a stated interval |
| count | a statistic of a data set, by our code and by another program |

Errors are (model - measured) / measured.
"""
_LIMITS = """\
- **Energy**. No device's joules of training were compared with a meter's reading. Watts come from
  data sheets, benchmarks of single cores, published samples and, for the Raspberry Pi 4, a fit to
  its draw in training; the one published figure for a
  whole round, FedGCS's, is not usable. For t2 instances no power figure exists. Radio power is a
  fit to two American networks and one phone; Wi-Fi power by rate rests on data sheets and a phone
  of 2012.
- **Phones, except for one chip.** Training was measured on a Snapdragon 855 with MNN. Every other
  phone's rate is scaled from it by inference latency, which is off by a factor of two on a
  recent phone and of three on an old one. GPUs and NPUs of phones, and other engines, are not
  covered.
- **Depthwise convolutions on phones**: one network on one phone, whose points were fitted.
- **Transformers on phones**: the one measured phone took 12.6 times the seconds of the model (Gemma
  3 270M with LoRA on a Snapdragon 778G; EdgeFlowerTune, arXiv 2605.08636); `run` and `validate`
  warn. How much of it is the engine is open. **Recurrent networks on phones**: no measured time in
  an engine of MNN's class was found.
- **Convolutions on Jetson GPUs, small networks on them (the overhead of a layer is that of
  inference), anything on the CPUs of Jetsons, the Xavier NX and the Orin Nano**: rates are inferred
  from matrix products or from other boards. Small networks were timed on no board.
- **Evaluation** is timed at the rate of training, which makes it 2 to 6 times too slow on phones.
- **t2 credits in the field**: the rules were read, but no measured run was found. The rule by which
  AWS lowers a clock "gradually" is unknown.
- **A lower clock**: one phone at one clock, 0.68 of its own. Lower clocks and other chips were not
  measured.
- **Heat**: resistance and time constant of the skin rest on two readings of other phones; one node
  represents the whole phone.
- **Memory that is free** on phones: no data. The `autograd` engine was compared with torch on a
  desktop CPU only.
- **The channel in the field.** The code follows its laws. It is assumed that a given place fades by
  them, that blocks are independent, and that 128.1 + 37.6 log10(d) holds there. Defaults give
  five eighths of one US operator's median for the uplink and a fifth of it for the downlink
  ([channel](models/channel.md)). Thresholds of modulation and coding are one receiver's; those of
  two others lie up to 3 dB below and 4 dB above, and receive antennas are not counted.
- **Transfers in the field**: TCP was timed over a link without losses or other traffic. Round-trip
  times of Wi-Fi and cables are inferred.
- **People** of the bundled traces are generated. Published traces are counted correctly; it is not
  known whether their people are like yours.
- **The whole**: no federated run on real devices was found with time, energy and accuracy all
  published. So time-to-accuracy and energy-to-accuracy of a fleet are validated only piece by
  piece. Accuracy comes from real training, not from a model.
- **Not obtained**: the on-device tables of Flower (arXiv:2104.03042), the device and power tables
  of AutoFL, EAFL, Swan, BouquetFL, FS-Real and DeepThings, FedScale's device data, power of LTE's
  state promotions on today's phones, power profiles of the OnePlus 10 Pro and the Realme Q3s.
  If you have them, please add a row.
"""


SECTION_MAKERS: Mapping[str, Callable[[], Section]] = {
    "boards": boards.section,
    "the energy of FedGCS": boards.energy_section,
    "boards in PyTorch": board_training.section,
    "overhead of a layer": launches.section,
    "phones": phones.section,
    "a lower clock": lower_clock.section,
    "other phones": other_phones.section,
    "memory": peak_memory.section,
    "credits and heat": slowdown.section,
    "fading": channel.section,
    "link rates": link_rates.section,
    "radios": radio.section,
    "transport": transport.section,
    "waiting": queueing.section,
    "bundled traces": people.section,
    "published traces": published.section,
}
"""Functions that make a section each, by the name that is shown meanwhile."""


def render(sections: Iterable[Section]) -> str:
    """Return the page of these sections."""
    sections = list(sections)
    summary = table(
        ("what", "kind", "points", "result"),
        [(v.what, v.kind, str(v.num_points), v.message) for s in sections for v in s.verdicts],
    )
    parts = [_HEAD, f"## Summary\n\n{summary}\n"]
    parts += [f"## {section.title}\n\n{section.text.strip()}\n" for section in sections]
    parts.append(f"## What is not validated\n\n{_LIMITS}")
    return "\n".join(parts)


def write(sections: Iterable[Section], folder: Path) -> Path:
    """Write validation.md into a folder, and the figures beside it; return the page's path."""
    sections = list(sections)
    hint = "name a folder that you may write to"
    with atomic_files.one_line_error(folder, "cannot be made", hint):
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for section in sections:
        for stem, figure in section.figures.items():
            svg = style.encode(figure, ["svg"])["svg"]
            atomic_files.write(folder / FOLDER / f"{stem}.svg", svg, hint=hint)
    path = folder / "validation.md"
    atomic_files.write(path, render(sections).encode(), hint=hint)
    return path
