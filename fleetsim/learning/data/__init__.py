"""Data sets: settings, loading, standardisation, and sizes known in advance.

- `loading`: Data sets that a scenario can name, and the loading of one, also in a thread.
- `dataset_kind`: Interface of the data sets that a scenario can name.
- `dataset`: Loaded data set.
- `built_in`: Data sets without files.
- `published`: Published data sets: their readers, addresses and checksums, and their download.
- `labelled_text`: Texts with a label and a user each, from the user's own CSV file.
- `own_data`: The user's own data set: the arrays of its parts, checked, and its assembly from them.
- `folder`: The user's own folder of .npz or IDX files, as a data set of a scenario.
- `formats`: File formats of data sets, read without trust in the file.
- `tokens`: Tokens of texts: vocabulary, samples cut out of a long text, and their memory.
"""
