"""DivFL: diverse clients by the facility location of their gradients.

- `selector`: DivFL: clients whose gradients together represent those of all clients.
- `equations`: Equations of DivFL.
"""
