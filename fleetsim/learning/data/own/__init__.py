"""The user's own data: what is given from Python or read from files, checked and assembled.

- `checked_part`: arrays of one part, checked.
- `assembly`: data set from its parts: test part, classes, numbers, clients.
"""
