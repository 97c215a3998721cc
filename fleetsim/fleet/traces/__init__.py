"""Traces of people's usage and of networks: records, readers and importers.

- `usage`: usage traces.
- `network`: network traces.
- `periodic`: records that repeat, and the step in force at any moment.
- `followed_records`: record and shift of every client, by name.
- `shuffled_assignment`: assignment of records to clients.
- `formats`: importer of each published format.
- `csv_table`: columns of one CSV file, with faults by file and row.
- `folder`: writing of trace folders.
"""
