"""Traces of people's usage and of networks: records, readers and importers.

- `usage`: usage traces.
- `network`: network traces.
- `periodic`: records that repeat, and the step in force at any moment.
- `followed_records`: record and shift of every client, by name.
- `shuffled_assignment`: assignment of records to clients.
- `formats`: importer of each published format.
- `table_import`: import of any table, of rates or of usage.
- `column_choice`: columns of a table that its owner names, with their units.
- `json_object`: JSON files of one object, read within limits.
- `csv_table`: columns of one CSV file, with faults by file and row.
- `folder`: writing of trace folders.
"""
