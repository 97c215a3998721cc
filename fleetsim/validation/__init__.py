"""Pages that set the models of scenarios beside measurements, theory and counts.

`fleetsim world validate` writes them. Nothing here models anything: every figure comes from
`load_device` and the code of fleet/ and engine/ that a run uses. It is set beside a published
measurement (`measurements`), a closed form, or a count in a trace.

- `page`: Pages of sections by subject, and one with all verdicts that lists what is not validated.
- `tables`: Checks, estimates and sections, whose words are templates of Markdown in `sections/`.
- `measurements`: Published measurements that fleetsim carries.
- `board_training`: Boards that train in PyTorch on their CPU.
- `lower_clock`: Training at a lower clock on a Snapdragon 855.
- `boards`: Boards and instances: measured times on Jetsons, a Raspberry Pi and t2, energy, layers.
- `phones`: Phones: 40 measured training times on a Snapdragon 855, the repeated fit, and power.
- `other_phones`: Scaling from phone to phone by inference latency.
- `peak_memory`: Peak memory of an SGD step in the `mnn` engine, beside readings.
- `slowdown`: Slowdown of devices by CPU credits (t2 instances) and heat (phones).
- `channel`: Fading channel, against closed forms and integrals over the densities of its laws.
- `link_rates`: Default rates of links, beside measured rates.
- `radio`: Radios: power by rate and by transmit power, Wi-Fi, round trips.
- `transport`: Transfers over TCP: one connection by round trip, seconds by size.
- `queueing`: Clients that wait for each other.
- `people`: Usage traces, bundled and published.
"""
