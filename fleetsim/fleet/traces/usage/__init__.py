"""Usage traces: states of people's devices over time.

- `trace`: the trace: states that hold from one whole second to another.
- `files`: reading and writing of traces in CSV files.
- `csv_forms`: the forms of CSV files.
- `records`: records of a source, rotated into days from local midnight.
- `importing`: import of published formats.
- `flash`: event logs of FLASH.
- `flash_ready`: intervals in which phones of FLASH are ready.
- `features_labels`: phone state in the published files of ExtraSensory.
- `table`: any table of usage, in columns that its owner names.
- `state_columns`: columns of such a table that give states.
- `fedscale`: behaviour file of FedScale.
- `plain_pickle`: pickles of plain values, read without execution.
"""
