"""Data sets: settings, loading, standardisation, and sizes known in advance.

- `loading`: data sets that a scenario can name, and the call that loads one.
- `dataset_kind`: interface of a data set that a scenario can name.
- `dataset`: loaded data set.
- `digits`: handwritten digits of scikit-learn.
- `published`: published data sets and their download.
- `synthetic`: generated users whose models and inputs differ.
- `labelled_text`: texts in the user's own CSV file.
- `accessed_inputs`: interface of inputs that are made anew at each access.
- `checked_part`: arrays of one part of the user's own data set, checked.
- `assembly`: assembly of the user's own data set from its parts.
- `content_hash`: digest of the content of a data set.
- `folder`: the user's own folder of .npz or IDX files.
- `blank`: shapes and sizes without data.
- `formats`: IDX, .npz, zip, tar and picture files.
- `byte_images`: images that stay bytes until their numbers are needed.
- `standardisation`: inputs with mean 0 and standard deviation 1.
- `tokens`: vocabulary and samples of texts.
- `prefetch`: loading in a thread.
"""
