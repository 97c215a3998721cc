"""Package."""

from fleetsim.selectors.fedcs.equations import num_asked, pack, round_s, uploaded_at_s
from fleetsim.selectors.fedcs.selector import FedCSSelector, FedCSSettings

__all__ = ["FedCSSelector", "FedCSSettings", "num_asked", "pack", "round_s", "uploaded_at_s"]
