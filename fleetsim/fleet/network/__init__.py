"""Links of clients: radios, channels, transport protocol and shared links.

- `access`: Links of clients to the server: radios, channels, transport protocol and shared links.
- `wifi_or_cellular`: Network of a wireless client.
- `channel`: Rates of every client's links, and transfers over them.
- `channels`: Kinds of cellular channel: settings of each, and the links that they build.
- `wireless`: Radio cells and Wi-Fi: signal, fading and rates.
- `measured_links`: Rates of clients that follow network traces, exact in every lap.
- `transfer`: Transfers of bits over rates that change from step to step, exact across edges.
- `transport`: Connection set-up and TCP slow start, as caps on a transfer's rate over time.
- `sharing`: Links that several clients share.
- `radio_power`: Power of a busy radio by the rate of its transfer and by the power that it emits.
- `arrivals`: Uploads that a scenario forces to be lost.
- `direction`: Direction of a transfer between the server and a client.
- `fleet_radios`: Radios of a fleet, by device and network.
"""
