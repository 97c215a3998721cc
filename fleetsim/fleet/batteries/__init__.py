"""Batteries of the clients: settings, levels over time, and their assignment.

- `settings`: Settings of `fleet.battery`: size, charger, curves, and power use of owners.
- `base`: Interface of batteries: levels of N clients over time, idle or in a task. Pure in time.
- `plain`: Batteries that only tasks drain: an idle one rises at constant power until it is full.
- `live`: Batteries that owners drain too; `fleetsim.fleet.batteries.dynamics` has the equations.
- `dynamics`: Equations of live batteries: use by owners, tapered charging and loss by resistance.
- `assignment`: Assignment of batteries.
"""
