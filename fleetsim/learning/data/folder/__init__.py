"""The user's own folder of .npz or IDX files, as a data set of a scenario.

- `folder_settings`: settings, and loading of the data set.
- `files`: files in such a folder, read and checked.
- `sizes`: numbers of samples and clients in such a folder.
"""
