"""Lumos5G 1.0: downlink rates of a phone on millimetre-wave 5G, walking and driving around a loop.

Narayanan et al., "Lumos5G: Mapping and Predicting Commercial mmWave 5G Throughput" (IMC 2020). The
README of the data set defines the columns: `Throughput` is the TCP downlink of iPerf 3.7 in every
second, whose unit it does not state (Mbit/s in the paper's figures); `seq_num` counts the seconds
of a run; runs are numbered within a mode of mobility and a direction. Missing are empty fields, nan
and NA, as pandas and R write numbers that were not measured. Seconds repeat in some runs:
they become one, with the mean of their rates.
"""

from pathlib import Path

from fleetsim.errors import DataError
from fleetsim.fleet.traces.column_choice import ColumnChoice
from fleetsim.fleet.traces.network.table import RateColumns, ReadRates, read_rate_table
from fleetsim.fleet.traces.table_rows import Layout
from fleetsim.host import paths

_COLUMNS = RateColumns(
    time=ColumnChoice("lumos5g", "seq_num", "s"),
    down=ColumnChoice("lumos5g", "Throughput", "Mbit/s"),
    who=tuple(
        ColumnChoice("lumos5g", name, None)
        for name in ("mobility_mode", "trajectory_direction", "run_num")
    ),
    layout=Layout(",", ".", frozenset({"nan", "na"}), has_options=False),
)


def read_lumos5g(source: Path) -> ReadRates:
    """Read Lumos5G; a record is a run, named after its mode, direction and number.

    Args:
        source: Lumos5G-v1.0.csv (or .csv.gz), or the folder that holds it alone.

    Raises:
        DataError: there is no such file, or it is wrong.
    """
    if not paths.is_folder(source):
        return read_rate_table(source, _COLUMNS)
    result = [*paths.matches(source, "Lumos5G*.csv"), *paths.matches(source, "Lumos5G*.csv.gz")]
    if len(result) != 1:
        message = "no Lumos5G*.csv in it" if not result else f"holds {result[0].name} and more"
        raise DataError(f"{source}: {message}; name the file Lumos5G-v1.0.csv")
    return read_rate_table(result[0], _COLUMNS)
