"""Network traces: measured rates over time.

- `trace`: the trace: rates that hold from one millisecond to another.
- `files`: reading, writing and import of network traces.
- `published_forms`: Irish 5G and Norwegian 3G logs.
- `lumos5g`: Lumos5G, walks and drives around a loop in Minneapolis.
- `table`: any table of rates, in columns that its owner names.
"""
