"""Small valid files of every format that fleetsim reads, as a mapping of name to bytes."""

import gzip
import io
import json
import pickle
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.learning.data.stand_ins import idx

Files = dict[str, bytes]

_INPUTS: Final = np.arange(24, dtype=np.float32).reshape(12, 2)
_IMAGES: Final = np.arange(12 * 16, dtype=np.uint8).reshape(12, 4, 4)
_LABELS: Final = np.arange(12, dtype=np.int64) % 3
_TOKENS: Final = np.arange(12 * 6).reshape(12, 6) % 11


def npz(save: Any = np.savez, **arrays: NDArray[Any]) -> bytes:
    """Return a .npz file, uncompressed unless saved by `np.savez_compressed`."""
    file = io.BytesIO()
    save(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _packed(files: Files) -> Files:
    return {f"{name}.gz": gzip.compress(raw, 1, mtime=0) for name, raw in files.items()}


_TEST_VECTORS: Final = npz(np.savez_compressed, inputs=_INPUTS[:4], labels=_LABELS[:4])
_IDX: Final = {
    f"{part}-{name}-ubyte": idx(array[:count].astype(np.uint8))
    for part, count in (("train", 12), ("t10k", 5))
    for name, array in (("images-idx3", _IMAGES), ("labels-idx1", _LABELS))
}
FOLDERS: Final[dict[str, tuple[Files, str]]] = {
    "vectors": (
        {
            "train.npz": npz(inputs=_INPUTS, labels=_LABELS, client=_LABELS),
            "test.npz": _TEST_VECTORS,
        },
        "logistic",
    ),
    "images": (
        {
            "train.npz": npz(np.savez_compressed, images=_IMAGES, labels=_LABELS),
            "test.npz": npz(images=_IMAGES[:3], labels=_LABELS[:3]),
        },
        "logistic",
    ),
    "idx": (_IDX, "logistic"),
    "idx-gz": (_packed(_IDX), "logistic"),
    "tokens": (
        dict.fromkeys(("train.npz", "test.npz"), npz(inputs=_TOKENS, labels=_TOKENS)),
        "lstm",
    ),
}
"""Data folders of a user, each with a model that can train on it."""

LABELLED_TEXT: Final = (
    "user,label,text,part\n"
    + "".join(
        f'{user},good,"Fine, fine day!",train\n{user},bad,rain,train\n'
        f"{user},good,a fine sun,train\n{user},bad,,test\n"
        for user in ("ann", "bob", "zoe")
    )
).encode()

_STATES: Final = {
    "states.csv": b"user,t_s,online,charging,unmetered,load\n"
    b"a,0,1,1,0,0.1\na,400,0,0,0,0\nb,0,1,0,1,0.5\n",
    "users.csv": b"user,span_s\na,1000\nb,500\n",
}
_RATES: Final = {
    "rates.csv": b"trace,t_s,down_bit_per_s,up_bit_per_s\n"
    b"a,0,1e6,1e5\nb,0,3e6,1e6\na,5,0,0\na,9,5e3,1\nb,2,,\n"
}
USAGE_TRACES: Final = {"states": _STATES, "states-gz": _packed(_STATES)}
NETWORK_TRACES: Final = {"rates": _RATES, "rates-gz": _packed(_RATES)}

_FLASH_LOG: Final = "".join(
    f"2020-01-31 22:00:{second:02}\t{event}\n"
    for second, event in enumerate(
        ["screen_off", "screen_lock", "battery_charged_on", "WIFI", "screen_on", "4G", "50%"]
    )
)
_FLASH: Final = {"0": {"guid": "g", "model": "m", "messages": _FLASH_LOG * 3}}
_FEDSCALE: Final = {
    3: {
        "duration": 60,
        "inactive": [30, 50, 60, 100],
        "finish_time": 100,
        "active": [10, 30, 60, 80],
        "model": "m",
    }
}

IMPORTS: Final[dict[str, Files]] = {
    "states": _STATES,
    "intervals": {
        "intervals.csv": b"user,start_s,end_s\na,86400,86410\na,86500,86600\n",
        "users.csv": b"user,trace_start_s,trace_end_s\na,86400,172800\n",
    },
    "flash": {"guid2data.json": json.dumps(_FLASH).encode()},
    "fedscale": {"client_behave_trace": pickle.dumps(_FEDSCALE, protocol=4)},
    "flash-ready": {"ready_strict.json": b'{"a": [[10.0, 20.0], [15.0, 40.0]], "b": []}'},
    "lumos5g": {
        "Lumos5G-v1.0.csv": b"run_num,seq_num,Throughput,mobility_mode,trajectory_direction\n"
        b"1,1,100,walking,CW\n1,2,200,walking,CW\n1,2,300.5,walking,CW\n"
    },
    "irish-5g": {
        "Download/B_1.csv": b"Timestamp,Longitude,Latitude,Speed,NetworkMode,DL_bitrate,"
        b"UL_bitrate,State\n2019.12.16_13.40.04,-8.5,51.9,0,5G,1000,10,D\n"
        b"2019.12.16_13.40.05,-8.5,51.9,0,5G,3000,10,D\n"
        b"2019.12.16_13.40.07,-8.5,51.9,0,LTE,0,0,I\n"
    },
    "norway-3g": {"log": b"0.0 9.9\n0.55 4.0\n2.05 0.5\n"},
    "rates": _RATES,
}
"""Sources of `fleetsim trace import`, by format."""

_RUNS: Final = (
    b"seconds,samples,batch_size,epochs,conv_flop,layers,parameters\n"
    b"60,600,32,1,5e8,20,11000000\n70,600,8,1,5e8,20,11000000\n"
)
_LOGS: Final = {
    "csv": b"time_s,power_mW\n0,1500\n10,1490\n20,1510\n30,6500\n40,6490\n50,6510\n",
    "tsv": b"Time(ms)\tMain(mA)\tMain Voltage(V)\n"
    + b"".join(b"%d\t%d\t3.9\n" % (s * 1000, 384 if s < 30 else 1666) for s in range(0, 60, 5)),
    "de": b"sep=;\ntime_s;I (A);U (V)\n0;-0,4;3,9\n30;-1,6;3,9\n59;-1,7;3,9\n\n",
}
_TABLE: Final = "trace import table a.csv mine --time"
_CALIBRATE: Final = (
    "device calibrate mine.yaml --like pixel-6 --runs runs.csv --power log.csv --idle 0:30"
    " --train 30:60"
)
TABLES: Final[dict[str, tuple[str, Files]]] = {
    "rates": (f"{_TABLE} t --rate r[kbit/s]", {"a.csv": b"t;r\n0,0;1,5\n1,0;2,5\n\n2,0;0,5\n"}),
    "states": (
        f"{_TABLE} t_ms --who who --state charging=plug --missing -",
        {"a.csv": b"t_ms,who,plug\n0,a,ac\n60000,a,none\n60000,b,usb\n"},
    ),
    **{
        f"log {form}": (_CALIBRATE, {"runs.csv": _RUNS, "log.csv": log})
        for form, log in _LOGS.items()
    },
}
"""Commands that read tables of the user's, with the files."""
