"""Data of the user's own: arrays, tables, folders of files, Hugging Face and torch data sets.

- `user_dataset`: The user's own data set as given from Python.
- `reading`: Reading of a part of the user's data: once into arrays, or once to learn its labels.
- `values`: Values of the user's samples as arrays: numbers, arrays, tensors, lists and pictures.
- `rows`: Rows of one part of the user's data: sample, label and client, by index or all at once.
- `hugging_face`: Hugging Face data sets: columns as arrays, and local files that the library reads.
"""
