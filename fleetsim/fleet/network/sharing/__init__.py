"""Links that several clients share.

- `shared_links`: Cells and the server's link.
- `max_min`: Max-min fair rates of clients that transmit at the same time.
- `band`: Parts of a cell's band: the rates that they carry, and their division among clients.
- `flows`: Timelines of transfers that share links, computed together from event to event.
"""
