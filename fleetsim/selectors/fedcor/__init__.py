"""FedCor: clients whose losses correlate with those of all others.

- `selector`: FedCor.
- `equations`: Equations of FedCor: covariance of clients' loss changes, scores and the choice.
- `correlation_fit`: Maximum-likelihood fit of FedCor's covariance: a point for each client.
"""
