"""File formats of data sets, read without trust in the file.

- `idx`: arrays in IDX files, MNIST's format.
- `npz`: arrays in .npz files.
- `zip_members`: files in a zip archive.
- `tar_members`: files in a gzipped tar archive.
- `pictures`: pixels of JPEG and PNG files.
- `picture_files`: picture files in a folder or an archive.
"""
