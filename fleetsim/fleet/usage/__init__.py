"""Usage of the clients' devices by their owners.

- `loading`: usage trace that a scenario names, recorded or synthetic.
- `usage`: online, charging, network, load and memory of every client at any moment.
- `pairing`: clients that follow the records of the owners of their data.
- `synthetic`: drawn availability of a given mean and severity.
- `time_zones`: time zones of the clients.
"""
