"""Usage traces: states of people's devices over time.

- `trace`: Usage traces: states of people's devices that hold from one whole second to another.
- `files`: Usage traces in CSV files, whose headers determine the form.
- `records`: Records of a source, and their conversion to a `Trace` of days from local midnight.
- `flash`: Published traces of FLASH, as `UsageRecords`.
- `features_labels`: ExtraSensory as published.
- `table`: Import of any table of people's usage: states per sample, or intervals of availability.
- `fedscale`: Behaviour file of FedScale: availability of its clients, as `UsageRecords`.
- `plain_pickle`: Pickles of plain values (dicts, lists, text and numbers), read without execution.
"""
