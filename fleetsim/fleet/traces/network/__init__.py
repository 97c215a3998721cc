"""Network traces: measured rates over time.

- `trace`: Network traces: measured rates that hold from one millisecond to another.
- `files`: Reading, writing and import of network traces in one CSV file.
- `published_forms`: Published network traces, each read into a `NetTrace`.
- `table`: Import of any table of measured rates.
"""
