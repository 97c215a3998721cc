"""The user's own data: what is given from Python or read from files, checked and assembled.

- `own_dataset`: the data set as given from Python: its forms, options and reading.
- `rows`: rows of one part, by index or all at once.
- `fields`: parts of a row and their names.
- `tables`: tables of pandas and Hugging Face, and mappings of columns.
- `hugging_face`: columns of Hugging Face data sets, and local files that their library reads.
- `values`: numbers, arrays, tensors, lists and pictures as arrays.
- `reading`: a part read once into arrays, or once to learn its labels.
- `accessed_inputs`: samples that are made anew at each access.
- `checked_part`: arrays of one part, checked.
- `checked_dataset`: data set that the user's code made itself, checked.
- `assembly`: data set from its parts: test part, classes, numbers, clients.
"""
