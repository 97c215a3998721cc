"""Batteries of the clients: settings, levels over time, and their assignment.

- `settings`: settings of `fleet.battery`, with charging and discharging curves.
- `base`: interface of batteries: levels while idle and in tasks.
- `plain`: batteries that only tasks drain, in closed form.
- `live`: batteries that owners drain too.
- `dynamics`: equations of live batteries.
- `assignment`: capacity, charger and first level of each client.
"""
