"""Usage of the clients' devices by their owners.

- `loading`: Loading of the usage trace that a scenario names, recorded or synthetic.
- `usage`: Usage of devices by their owners at any moment.
- `synthetic`: Synthetic availability of a given mean.
"""
