"""File formats of data sets, read without trust in the file.

- `idx`: Arrays in IDX files, the format of MNIST and its relatives.
- `npz`: Arrays in .npz files of unknown origin, which are not trusted.
- `zip_members`: Files in a zip archive, read in place: the requested ones alone, up to a size.
- `tar_members`: Files in a gzipped tar archive, read as a stream, up to a size.
- `pictures`: Pixels of JPEG and PNG files, read without trust in the file.
- `picture_files`: Picture files in a folder, in a zip archive or in a gzipped tar, all read alike.
"""
