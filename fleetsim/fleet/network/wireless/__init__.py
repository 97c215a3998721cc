"""Radio cells and Wi-Fi: signal, fading and rates.

- `cell`: Radio cell: clients around an antenna, their signal and their fading blocks.
- `fading`: Fading of a link: its power gain from one block of time to the next.
- `modulation`: Modulation and coding of 5G NR: rates by signal-to-noise ratio, in steps.
- `rate`: Rate of a link by its signal-to-noise ratio.
- `wifi`: Wi-Fi of clients: an access point at home, shared airtime, and the line behind it.
"""
