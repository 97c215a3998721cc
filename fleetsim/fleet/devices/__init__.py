"""Hardware of the clients: profiles, speed, memory, CPU credits and heat.

- `profile`: Profiles of devices and radios in SI units, and their loading from files.
- `profile_files`: Schema of device and radio files.
- `figures`: Figures of device, radio and price files.
- `hardware_files`: Device and radio files of one scenario, each opened and checked once.
- `uncertainty`: Errors of device and radio figures, drawn for each seed (`fleet.uncertainty`).
- `market`: Speeds of phones on the market, and the bundled phone that represents each.
- `assignment`: Device and unit speed of each client.
- `compute`: Duration and energy of computations.
- `pace`: Steps of speed and power of computations, before background load.
- `memory`: Memory of an SGD step, and free memory of devices.
- `credits`: CPU credits of burstable instances: full speed while they last, then the baseline.
- `thermal`: Skin temperature of phones and the clock that it allows.
"""
