"""Whether weights that a selector gave are shares of the next model, or weigh among each other.

A share counts as it is, whatever the sum of all and whoever delivers (`Report.is_share`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetsim.contracts import Report


def are_shares(reports: Sequence[Report]) -> bool:
    """Whether delivered reports count by shares.

    Raises:
        ValueError: some do and others do not.
    """
    delivered = [report for report in reports if report.is_delivered]
    shares = [report.client for report in delivered if report.is_share]
    if shares and len(shares) < len(delivered):
        raise ValueError(
            f"client {shares[0]} was chosen with a share of the next model, others that are"
            " aggregated with it were not: a selector must give shares always or never"
        )
    return bool(shares)
