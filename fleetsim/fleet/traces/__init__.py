"""Traces of people's usage and of networks: records, readers and importers.

A fault of a file is a `DataError` that names the file and the row, one of an option a
`ScenarioError`.

- `usage`: Usage traces: states of people's devices over time.
- `network`: Network traces: measured rates over time.
- `periodic`: Records that repeat.
- `followed_records`: Records of a trace that clients follow.
- `formats`: Import of traces, of usage or of a network.
- `column_choice`: Columns of a table that its owner names.
- `column_units`: Unit that the name of a column states, by whole words.
- `column_numbers`: Numbers and times in the columns of a table that its owner names.
- `table_rows`: Rows of a delimited table, the header first.
- `csv_table`: Columns of one CSV file, as text and as numbers.
- `ordered_rows`: Rows of several owners in the order of time.
- `folder`: Folders of traces.
"""
