"""File formats of data sets, read without trust in the file.

- `idx`: Arrays in IDX files, the format of MNIST and its relatives.
- `npz`: Arrays in .npz files of unknown origin, which are not trusted.
- `picture_files`: Picture files in a folder, in a zip archive or in a gzipped tar, all read alike.
- `archives`: Files in a zip or a gzipped tar, read in place.
"""
