"""World of a run: devices, links, people and energy as pure functions of time.

- `population`: Clients of a fleet: device, place, samples and owner's habits; pure in time.
- `settings`: Settings of a fleet: its clients and the world around them.
- `heterogeneity`: Spread of clients' speeds and bandwidths: multipliers whose mean stays 1.
- `devices`: Hardware of the clients: profiles, speed, memory, CPU credits and heat.
- `network`: Links of clients: radios, channels, transport protocol and shared links.
- `batteries`: Batteries of the clients: settings, levels over time, and their assignment.
- `usage`: Usage of the clients' devices by their owners.
- `traces`: Traces of people's usage and of networks: records, readers and importers.
- `throttle`: Throttling of computations by CPU credits, heat and a lower clock.
- `energy`: Components of energy, and radio tails: exact, because power is piecewise constant.
- `timeline`: Timelines of phases: progress and energy at any moment, piecewise linear.
- `columns`: Records whose fields are all arrays with one row for each client, task or device.
"""
