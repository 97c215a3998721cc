"""Calibration of a device: a device file from timed training runs and a power log.

- `device_calibration`: the whole: runs and log in, device file and residuals out.
- `timed_runs`: training runs that somebody timed, with the costs of their models.
- `time_fit`: rate of arithmetic and overheads that explain the times of the runs.
- `power_log`: watts over time from CSV logs of power monitors, and means over windows.
- `power_columns`: columns of such a log, found by their names, and values that cannot be.
- `power_rails`: energy of power rails from Perfetto, exported or as recorded.
"""

from fleetsim.calibration.device_calibration import Calibration, calibrate

__all__ = ["Calibration", "calibrate"]
