"""Data sets: settings, loading, standardisation, and sizes known in advance.

- `loading`: Data sets that a scenario can name, and the loading of one, also in a thread.
- `dataset_kind`: Interface of the data sets that a scenario can name.
- `dataset`: Loaded data set: arrays of inputs and labels.
- `digits`: Handwritten digits that come with scikit-learn.
- `published`: Published data sets: their readers, addresses and checksums, and their download.
- `synthetic`: Synthetic(alpha, beta).
- `labelled_text`: Texts with a label and a user each, from the user's own CSV file.
- `accessed_inputs`: Interface of inputs that are made anew whenever a client trains on them.
- `checked_part`: Arrays of one part of the user's own data set, checked.
- `assembly`: Assembly of the user's own data set from its parts.
- `folder`: The user's own folder of .npz or IDX files, as a data set of a scenario.
- `blank`: Data set without data: only shapes and sizes, for runs that do not train.
- `formats`: File formats of data sets, read without trust in the file.
- `standardisation`: Standardisation of inputs to mean 0 and standard deviation 1.
- `tokens`: Tokens of texts: vocabulary, samples cut out of a long text, and their memory.
- `remote_set`: Records of published data sets.
"""
