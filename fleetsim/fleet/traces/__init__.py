"""Traces of people's usage and of networks: records, readers and importers.

- `usage`: usage traces.
- `network`: network traces.
- `periodic`: records that repeat, and the step in force at any moment.
- `followed_records`: record and shift of every client, by name.
- `shuffled_assignment`: assignment of records to clients.
- `formats`: importer of each published format.
- `table_import`: import of any table, of rates or of usage.
- `column_choice`: columns of a table that its owner names, with their units.
- `column_units`: unit that the name of a column states.
- `column_numbers`: numbers and times in such columns.
- `json_object`: JSON files of one object, read within limits.
- `table_rows`: rows of a table, and how its fields are written.
- `csv_table`: columns of one CSV file, with faults by file and row.
- `ordered_rows`: rows of several owners in the order of time.
- `folder`: writing of trace folders.
"""
