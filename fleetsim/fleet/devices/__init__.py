"""Hardware of the clients: profiles, speed, memory, CPU credits and heat.

- `profile`: device and radio profiles in SI units, and their loading.
- `profile_files`: schema of device and radio files, in published units.
- `figures`: value, source and range of each figure of these files.
- `hardware_files`: device and radio files of one scenario, each read once.
- `uncertainty`: errors of figures, drawn for each seed.
- `extension`: device files that extend another device file.
- `radio_duty_cycle`: power of a radio that is on the air for a share of the time.
- `market`: speeds of the phones that AI-Benchmark lists.
- `assignment`: device and unit speed of each client.
- `compute`: duration and energy of computations.
- `pace`: steps of speed and power of computations.
- `memory`: free memory of devices and memory of an SGD step.
- `credits`: CPU credits of burstable instances.
- `thermal`: skin temperature and the clock that it allows.
"""
