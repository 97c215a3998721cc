"""FedCS: as many clients as fit into a round.

- `selector`: settings, and the request for resources.
- `equations`: length of a round, and greedy packing.
"""

from fleetsim.selectors.fedcs.equations import num_asked, pack, round_s, uploaded_at_s
from fleetsim.selectors.fedcs.selector import FedCSSelector, FedCSSettings

__all__ = ["FedCSSelector", "FedCSSettings", "num_asked", "pack", "round_s", "uploaded_at_s"]
