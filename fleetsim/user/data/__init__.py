"""Data of the user's own: arrays, tables, folders of files, Hugging Face and torch data sets.

- `own_dataset`: `fleetsim.dataset`, data in any form that is read, and their options.
- `reading`: reading of a form as training and test parts.
- `values`: arrays of samples and labels, and what they must be.
- `rows`: samples of a sequence or of a torch data set, one after another.
- `fields`: names of the fields of samples, and which of them is what.
- `tables`: samples of a pandas table.
- `hugging_face`: samples of a Hugging Face data set.
- `checked_dataset`: checks of a `Dataset` that a user's code made.
"""
