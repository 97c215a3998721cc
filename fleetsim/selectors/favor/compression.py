"""Coordinates of the models of all clients: what the server keeps of them.

The axes are fitted once in a run, on the first models: the global one, and those of the clients
that answered the first probes, at most a thousand of them, drawn at random (fleetsim's limit).
Then rows alone are kept, not models. A client without an answer has the coordinates of the initial
model.

Coordinates are divided by the standard deviation of the first models along the first axis, so that
they begin near 1 whatever the model (fleetsim's).
"""

from collections.abc import Mapping

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray, Parameters
from fleetsim.selectors.declared_state import DeclaredState
from fleetsim.selectors.favor.equations import (
    Scaling,
    coordinates,
    principal_axes,
    turn_onto,
)
from fleetsim.selectors.favor.replay import Coordinates

MOST_MODELS = 1_000
"""Largest number of clients whose first models the axes are fitted on."""


class Compression(DeclaredState):
    """Axes, and the coordinates of the global model and of all clients [N + 1, d]."""

    state_prefix = "compression/"
    state_fields = ("_mean", "_axes", "rows", "reference")

    def __init__(
        self, initial: Parameters, num_clients: int, num_axes: int, *, scaling: Scaling, seed: int
    ) -> None:
        self._initial = initial
        self._scaling: Scaling = scaling
        self._seed = seed
        self._mean: FloatArray = np.empty(0)
        self._axes: Parameters = np.empty((num_axes, 0), dtype=np.float32)
        self.rows: Coordinates = np.zeros((1 + num_clients, num_axes), dtype=np.float32)
        """Coordinates, the global model first; zeros before the fit. Never changed in place."""
        self.reference: Coordinates = np.full(self.rows.shape, np.nan, dtype=np.float32)
        """Coordinates of the first models of the first run; NaN where there was none [N + 1, d]."""

    @property
    def is_fitted(self) -> bool:
        """True if there are axes."""
        return self._mean.size > 0

    def take_in(self, models: Mapping[int, Parameters], global_model: Parameters) -> None:
        """Take models of clients and the global one into the rows; fit the axes on the first."""
        finite = {client: model for client, model in models.items() if np.isfinite(model).all()}
        if not self.is_fitted:
            if not finite or not np.isfinite(global_model).all():
                return
            self._fit(finite, global_model)
        models = {1 + client: model for client, model in finite.items()}
        if np.isfinite(global_model).all():
            models[0] = global_model
        self._store(models)

    def _fit(self, models: Mapping[int, Parameters], global_model: Parameters) -> None:
        """Fit the axes, turn them onto the reference, and place all clients."""
        clients = np.array(sorted(models), dtype=np.int64)
        if clients.size > MOST_MODELS:
            generator = rng.stream(self._seed, "select/favor/axes")
            clients = np.sort(generator.choice(clients, MOST_MODELS, replace=False))
        fitted_on = [global_model, *(models[client] for client in clients.tolist())]
        num_axes = self.rows.shape[1]
        self._mean, axes = principal_axes(fitted_on, num_axes, self._scaling)
        points = coordinates(fitted_on, self._mean, axes)
        spread = float(np.sqrt(np.mean(points[:, 0] ** 2))) or 1.0
        turn = self._turn(np.concatenate([[0], 1 + clients]), points / spread)
        self._axes = (turn.T @ (axes / spread)).astype(np.float32)
        initial = coordinates([self._initial], self._mean, self._axes)
        self.rows = np.repeat(initial.astype(np.float32), self.rows.shape[0], axis=0)
        if np.isnan(self.reference).all():
            self._store({0: global_model, **{1 + client: models[client] for client in models}})
            reference = np.full_like(self.reference, np.nan)
            known = [0, *(1 + client for client in models)]
            reference[known] = self.rows[known]
            self.reference = reference

    def _turn(self, places: IntArray, points: FloatArray) -> FloatArray:
        """Return the rotation of the axes onto the reference; none without one [d, d]."""
        is_shared = ~np.isnan(self.reference[places, 0])
        if not is_shared.any():
            return np.eye(points.shape[1])
        reference = self.reference[places[is_shared]].astype(np.float64)
        return turn_onto(points[is_shared], reference)

    def _store(self, models: Mapping[int, Parameters]) -> None:
        """Store the coordinates of models by row, where they are finite."""
        places = np.array(list(models), dtype=np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            exact = coordinates(list(models.values()), self._mean, self._axes)
            rounded = exact.astype(np.float32)
        is_finite = np.isfinite(rounded).all(axis=1)
        rows = self.rows.copy()
        rows[places[is_finite]] = rounded[is_finite]
        self.rows = rows
