"""TiFL: tiers of clients of similar latency.

- `selector`: settings, profiling and the choice of a tier.
- `equations`: latencies, tiers, credits, probabilities and the choice.
"""
