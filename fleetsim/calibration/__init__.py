"""Calibration of a device: a device file from timed training runs and a power log.

- `device_calibration`: Device file from timed training runs and a power log, with its residuals.
- `timed_runs`: Training runs that somebody timed on a device.
- `power_log`: Watts over time from the log of a power monitor, and their mean over windows.
- `power_rails`: Energy of power rails as Perfetto records it (`android.power`), as a power log.
"""

from fleetsim.calibration.device_calibration import calibrate

__all__ = ["calibrate"]
