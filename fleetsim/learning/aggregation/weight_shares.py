"""Kinds of weights that a selector gives: shares of the next model, or relative weights.

A share is used as it is: neither divided by the sum of all shares nor changed when other clients
fail to deliver (`Report.is_share`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetsim.contracts import Report


def are_shares(reports: Sequence[Report]) -> bool:
    """Return true if the delivered reports have shares, false if relative weights or none.

    Raises:
        ValueError: some reports have shares and others do not.
    """
    delivered = [report for report in reports if report.is_delivered]
    shares = [report.client for report in delivered if report.is_share]
    if shares and len(shares) < len(delivered):
        raise ValueError(
            f"client {shares[0]} was chosen with a share of the next model, others that are"
            " aggregated with it were not: a selector must give shares always or never"
        )
    return bool(shares)
