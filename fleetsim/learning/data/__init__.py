"""Data sets: settings, loading, standardisation, and sizes known in advance.

- `loading`: Data sets that a scenario can name, and the loading of one, also in a thread.
- `dataset_kind`: Interface of the data sets that a scenario can name.
- `dataset`: Loaded data set.
- `digits`: Handwritten digits that come with scikit-learn.
- `published`: Published data sets: their readers, addresses and checksums, and their download.
- `synthetic`: Synthetic(alpha, beta).
- `labelled_text`: Texts with a label and a user each, from the user's own CSV file.
- `own_data`: The user's own data set: the arrays of its parts, checked, and its assembly from them.
- `folder`: The user's own folder of .npz or IDX files, as a data set of a scenario.
- `blank`: Data set without data: only shapes and sizes, for runs that do not train.
- `formats`: File formats of data sets, read without trust in the file.
- `standardisation`: Standardisation of inputs to mean 0 and standard deviation 1.
- `tokens`: Tokens of texts: vocabulary, samples cut out of a long text, and their memory.
"""
