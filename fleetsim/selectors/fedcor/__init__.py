"""FedCor: clients whose losses correlate with those of all others.

- `selector`: settings, warm-up, shadow rounds and the choice.
- `equations`: covariance, scores and the choice.
- `correlation_fit`: fit of the covariance to observed changes of losses.
"""
