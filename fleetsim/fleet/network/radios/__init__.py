"""Radios of clients, and the power that they draw.

- `power`: Power of a busy radio by the rate of its transfer and by the power that it emits.
"""
