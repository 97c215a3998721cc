"""World of a run: devices, links, people and energy as pure functions of time.

- `population`: Clients of a fleet, and everything that a task can ask of them.
- `settings`: Settings of a fleet.
- `paired_users`: People of a usage trace whose data may be used.
- `heterogeneity`: Spread of clients' speeds and bandwidths: multipliers whose mean stays 1.
- `devices`: Device profiles, their assignment, and what they take to compute.
- `network`: Links of clients: radios, channels, transport protocol and shared links.
- `batteries`: Batteries and their charging.
- `usage`: Use of devices by their owners.
- `traces`: Usage and network traces: files, formats and records.
- `throttle`: Slowdown of computations by heat, CPU credits and a lower clock.
- `energy`: Components of energy, and the tails of radios.
- `timeline`: Timelines of phases: progress and power, piecewise constant.
- `columns`: Records whose fields are all arrays with one row for each client, task or device.
"""
