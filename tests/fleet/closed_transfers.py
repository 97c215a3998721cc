"""Transfers over links of constant rates, in closed form."""

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.transport import TcpSettings


def transfer_s(
    settings: TcpSettings, rtt_s: FloatArray, bit: FloatArray, rate_bit_per_s: FloatArray
) -> FloatArray:
    """Return seconds of transfers over links of constant rates, in closed form.

    W0 is the first window, T the round-trip time, J the number of rounds whose cap is below the
    rate of the link. J rounds move W0 (2^J - 1). A larger transfer continues at min(rate, receive
    window / T); a smaller one ends in round j = floor(log2(S / W0 + 1)). All arrays are [n].
    """
    first_bit, rounds = settings.initial_window_bit, settings.num_rounds
    last_window_bit = 8.0 * settings.receive_window_byte
    # Rounds in which the window, not the link, is the limit: W0 2^j < rate * T.
    pipe_bit = rate_bit_per_s * rtt_s
    limited = np.ceil(np.log2(np.maximum(pipe_bit / first_bit, 1.0)))
    limited = np.minimum(limited, rounds)
    ramp_bit = first_bit * (2.0**limited - 1.0)
    # log2 may round to a neighbouring round at a border, where both give the same time.
    whole = np.minimum(np.floor(np.log2(bit / first_bit + 1.0)), limited)
    in_round_bit = bit - first_bit * (2.0**whole - 1.0)
    within_s = rtt_s * (whole + in_round_bit / (first_bit * 2.0**whole))
    with np.errstate(divide="ignore"):
        steady_bit_per_s = np.minimum(rate_bit_per_s, last_window_bit / rtt_s)
    setup_s = (settings.handshake_round_trips + settings.request_round_trips) * rtt_s
    beyond_s = rtt_s * limited + (bit - ramp_bit) / steady_bit_per_s
    return np.asarray(setup_s + np.where(bit <= ramp_bit, within_s, beyond_s))
