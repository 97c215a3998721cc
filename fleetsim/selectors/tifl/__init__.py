"""TiFL: tiers of clients of similar latency.

- `selector`: TiFL.
- `equations`: Equations of TiFL: latencies, tiers, credits, probabilities of tiers, and the choice.
"""
