"""The user's own folder of .npz or IDX files, as a data set of a scenario.

- `folder_settings`: The user's own data set: a folder of .npz or IDX files, see docs/data.md.
- `files`: Files of the user's own data set: their names, and their arrays, read and checked.
"""
