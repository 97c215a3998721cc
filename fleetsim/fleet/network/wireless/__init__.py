"""Radio cells and Wi-Fi: signal, fading and rates.

- `cell`: Radio cell.
- `fading`: Fading of a link: its power gain from one block of time to the next.
- `rate`: Rate of a link by its signal-to-noise ratio: by modulation and coding, or Shannon's.
- `wifi`: Wi-Fi of clients: an access point at home, shared airtime, and the line behind it.
"""
